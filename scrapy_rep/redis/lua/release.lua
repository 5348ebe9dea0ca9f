-- KEYS: a lease. ARGV: its owner, and the channel and the name to tell the others
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[2], ARGV[3])
end
