-- Count what is there of a shard, if need be also in its books. KEYS: the owner.
-- ARGV: 1 to put the books right, or 0. Answers how many should be there, and how many are.
local p, there = string.sub(KEYS[1], 1, -6), 0
for _, list in ipairs(redis.call('SMEMBERS', p .. 'lists')) do
  there = there + redis.call('LLEN', p .. 'w:' .. list)
end
there = there + redis.call('HLEN', p .. 'out')
local n = redis.call('HMGET', p .. 'n', 'filed', 'done')
local should = (n[1] or 0) - (n[2] or 0)
if ARGV[1] == '1' and there ~= should then
  redis.call('HINCRBY', p .. 'n', 'done', should - there)
  redis.call('HINCRBY', p .. 'n', 'lost', math.max(0, should - there))
end
return {should, there}
