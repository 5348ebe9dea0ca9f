-- Delete a shard, some of its lists at a time. KEYS: the owner. ARGV: how many.
-- Answers how many lists are left.
local p = string.sub(KEYS[1], 1, -6)
for _, list in ipairs(redis.call('SPOP', p .. 'lists', ARGV[1])) do
  redis.call('UNLINK', p .. 'w:' .. list)
end
local left = redis.call('SCARD', p .. 'lists')
if left == 0 then
  redis.call('UNLINK', p .. 'out', p .. 'seen', p .. 'n', p .. 'news', p .. 'hosts', KEYS[1])
end
return left
