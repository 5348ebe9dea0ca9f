-- ARGV: prefix, '', '', lines of a host
-- Answers how many requests waited in them, which are gone.
local gone = 0
for i = 4, #ARGV do
  local waits = prefix .. 'host:' .. ARGV[i]
  gone = gone + redis.call('ZCARD', waits)
  redis.call('DEL', waits)
  -- When it may be asked again is still known; of one that may be asked nothing is.
  if redis.call('ZREM', DUE, ARGV[i]) == 1 then
    redis.call('HDEL', PACE, ARGV[i])
  end
end
count(-gone)
redis.call('HINCRBY', EPOCH, 'purged', gone)
return gone
