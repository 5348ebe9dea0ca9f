-- Give a shard back. KEYS: the owner. ARGV: my term, the channel of all, its number; host, fact...
local p = string.sub(KEYS[1], 1, -6)
if redis.call('HGET', p .. 'n', 'term') ~= ARGV[1] then
  return 0
end
redis.call('HDEL', p .. 'n', 'term')
redis.call('DEL', KEYS[1])
if #ARGV > 3 then
  redis.call('HSET', p .. 'hosts', unpack(ARGV, 4))
end
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1
