-- Keep, or give back, what is mine. KEYS: its lease. ARGV: me, for how many ms (0: give it back).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
