-- Delete what waits in lists of a shard. KEYS: the owner. ARGV: the lists. Answers how many.
local p, gone = string.sub(KEYS[1], 1, -6), 0
for _, list in ipairs(ARGV) do
  local number = redis.call('LLEN', p .. 'w:' .. list)
  gone = gone + number
  redis.call('DEL', p .. 'w:' .. list)
  redis.call('SREM', p .. 'lists', list)
  redis.call('HINCRBY', p .. 'news', list, -number) -- of which its owner hears
end
redis.call('HINCRBY', p .. 'n', 'done', gone)
redis.call('HINCRBY', p .. 'n', 'purged', gone)
return gone
