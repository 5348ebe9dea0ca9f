-- KEYS: a lease. ARGV: its owner, milliseconds. Answers whether it is still the owner's.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
