-- spend
-- A request to a host is about to start: may it?
-- KEYS: how many there were. ARGV: how many there may be, milliseconds after which that is
-- forgotten. Answers whether it may, and is counted.
if (tonumber(redis.pcall('GET', KEYS[1]) or 0) or 0) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
