-- New requests with their fingerprints, in one step for each shard.
-- KEYS: the owner of each shard. ARGV: me; for each shard the number of this batch, my term ('': I
-- do not own it), and how many requests come; for each of these its list (rank NUL place), 'L' (the
-- last goes first) or 'R', '1' (to hand) or '0', fingerprint ('': it may be filed twice), id and body.
-- Answers for each shard {1 if the term is over, the numbers of those requests that are not new}.
local me, at, answers = ARGV[1], 2, {}
for _, key in ipairs(KEYS) do
  local p = string.sub(key, 1, -6)
  local batch, term, new = unpack(ARGV, at, at + 2)
  local mine = term ~= '' and redis.call('HGET', p .. 'n', 'term') == term
  local answer, filed = {(term ~= '' and not mine) and 1 or 0}, 0
  local number, before = string.match(redis.call('GET', p .. 'b:' .. me) or '', '^(%d+) (.*)$')
  if number == batch then -- it was heard, and its answer was lost
    answer = cjson.decode(before)
  else
    for i = 1, new do
      local nth = at + 5 * i - 2
      local list, side, hand, print, body = unpack(ARGV, nth, nth + 4)
      if print ~= '' and redis.call('SADD', p .. 'seen', print) == 0 then
        answer[#answer + 1] = i
      else
        filed = filed + 1
        if mine and hand == '1' then
          redis.call('HSET', p .. 'out', string.sub(body, 1, 8), list .. '\0' .. body)
        else
          if redis.call(side .. 'PUSH', p .. 'w:' .. list, body) == 1 then
            redis.call('SADD', p .. 'lists', list)
          end
          if not mine then
            redis.call('HINCRBY', p .. 'news', list, 1) -- of which its owner hears
          end
        end
      end
    end
    if filed > 0 then
      redis.call('HINCRBY', p .. 'n', 'filed', filed)
    end
    redis.call('SET', p .. 'b:' .. me, batch .. ' ' .. cjson.encode(answer), 'PX', 3600000)
  end
  at = at + 3 + 5 * new
  answers[#answers + 1] = answer
end
return answers
