-- Requests for the owner, who has them until they are done, or until its term is over.
-- KEYS: the owner. ARGV: my term, a list, how many.
-- Answers how many are left, and bodies; nothing: the term is over.
local p, list, out = string.sub(KEYS[1], 1, -6), ARGV[2], {}
if redis.call('HGET', p .. 'n', 'term') ~= ARGV[1] then
  return
end
local found = redis.call('LRANGE', p .. 'w:' .. list, 0, ARGV[3] - 1)
redis.call('LTRIM', p .. 'w:' .. list, ARGV[3], -1)
for _, body in ipairs(found) do
  out[#out + 1] = string.sub(body, 1, 8)
  out[#out + 1] = list .. '\0' .. body
end
if #out > 0 then
  redis.call('HSET', p .. 'out', unpack(out))
end
local left = redis.call('LLEN', p .. 'w:' .. list)
if left == 0 then
  redis.call('SREM', p .. 'lists', list)
end
return {left, unpack(found)}
