-- Take a shard that nobody owns. KEYS: its owner. ARGV: me, the lease in ms, an epoch.
-- Answers nothing, or {term, how many requests its last owner had out, what that one told}.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return
end
local p = string.sub(KEYS[1], 1, -6)
-- A write that takes no memory: a server whose memory is full then lets the others pass.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('HSETNX', p .. 'n', 'epoch', ARGV[3])
local epoch = redis.call('HGET', p .. 'n', 'epoch')
local term = epoch .. ':' .. redis.call('HINCRBY', p .. 'n', 'number', 1)
redis.call('HSET', p .. 'n', 'term', term)
local facts = redis.call('GET', p .. 'hosts')
redis.call('DEL', p .. 'hosts', p .. 'news') -- it reads all of it
return {term, redis.call('HLEN', p .. 'out'), facts or '{}'}
