-- Requests for the owner, who has them until they are done, or until its term is over.
-- KEYS: the owner of each shard. ARGV: for each its term and the number of lists; list, how many.
-- Answers for each shard {1 if the term is over, and for each list {how many are left, bodies}}.
local at, answers = 1, {}
for _, key in ipairs(KEYS) do
  local p = string.sub(key, 1, -6)
  local mine = redis.call('HGET', p .. 'n', 'term') == ARGV[at]
  local answer, number = {mine and 0 or 1}, ARGV[at + 1]
  at = at + 2
  for _ = 1, number do
    local list, most = ARGV[at], ARGV[at + 1] + 0
    at = at + 2
    if mine then
      local found, out = redis.call('LRANGE', p .. 'w:' .. list, 0, most - 1), {}
      redis.call('LTRIM', p .. 'w:' .. list, most, -1)
      for _, body in ipairs(found) do
        out[#out + 1] = string.sub(body, 1, 8)
        out[#out + 1] = list .. '\0' .. body
      end
      if #out > 0 then
        redis.call('HSET', p .. 'out', unpack(out))
      end
      local left = #found < most and 0 or redis.call('LLEN', p .. 'w:' .. list)
      if left == 0 then
        redis.call('SREM', p .. 'lists', list)
      end
      answer[#answer + 1] = {left, unpack(found)}
    end
  end
  answers[#answers + 1] = answer
end
return answers
