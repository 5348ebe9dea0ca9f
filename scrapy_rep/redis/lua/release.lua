-- KEYS: a lease. ARGV: its owner, and if any the channel and the name to tell the others
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  if ARGV[2] then
    redis.call('PUBLISH', ARGV[2], ARGV[3])
  end
end
