-- Give a shard back. KEYS: the owner. ARGV: my term, what to tell the next.
local p = string.sub(KEYS[1], 1, -6)
if redis.call('HGET', p .. 'n', 'term') ~= ARGV[1] then
  return 0
end
redis.call('HDEL', p .. 'n', 'term')
redis.call('DEL', KEYS[1])
redis.call('SET', p .. 'hosts', ARGV[2])
return 1
