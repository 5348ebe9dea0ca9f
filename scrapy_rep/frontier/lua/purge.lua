-- Delete what waits in lists of a shard. KEYS: the owner. ARGV: the lists. Answers how many.
local p, gone = string.sub(KEYS[1], 1, -6), 0
for _, list in ipairs(ARGV) do
  gone = gone + redis.call('LLEN', p .. 'w:' .. list)
  redis.call('DEL', p .. 'w:' .. list)
  redis.call('SREM', p .. 'lists', list)
end
redis.call('HINCRBY', p .. 'n', 'done', gone)
redis.call('HINCRBY', p .. 'n', 'purged', gone)
redis.call('HINCRBY', p .. 'n', 'seq', 1) -- its owner looks anew
return gone
