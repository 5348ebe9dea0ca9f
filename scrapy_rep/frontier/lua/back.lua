-- What is out waits again, before all others of its list: some of it, until none is left.
-- KEYS: the owner. ARGV: my term, how many at the most.
-- Answers how many are left; -1: the term is over.
local p = string.sub(KEYS[1], 1, -6)
if redis.call('HGET', p .. 'n', 'term') ~= ARGV[1] then
  return -1
end
local cursor, found = '0', {}
repeat -- a page may be empty
  cursor, found = unpack(redis.call('HSCAN', p .. 'out', cursor, 'COUNT', ARGV[2]))
until #found > 0 or cursor == '0'
for i = 1, #found, 2 do -- id, and its list (rank NUL place) NUL body
  local at = string.find(found[i + 1], '\0', string.find(found[i + 1], '\0', 1, true) + 1, true)
  local list = string.sub(found[i + 1], 1, at - 1)
  redis.call('HDEL', p .. 'out', found[i])
  redis.call('LPUSH', p .. 'w:' .. list, string.sub(found[i + 1], at + 1))
  redis.call('SADD', p .. 'lists', list)
end
return redis.call('HLEN', p .. 'out')
