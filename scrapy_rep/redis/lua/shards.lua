-- Into how many shards is a queue cut? Once said, that stays.
-- KEYS: the number; and of a queue that is not cut due, later, count, workers and epoch
-- ARGV: how many there are to be, an id for the epoch
local known = redis.call('GET', KEYS[1])
if known then
  return tonumber(known)
end
if redis.call('EXISTS', unpack(KEYS, 2)) > 0 then
  return 1
end
if ARGV[1] == '1' then -- as begin.lua
  redis.call('HSET', KEYS[6], 'id', ARGV[2])
  redis.call('SET', KEYS[4], 0)
else
  redis.call('SET', KEYS[1], ARGV[1])
end
return tonumber(ARGV[1])
