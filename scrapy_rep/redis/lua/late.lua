-- The request that was booked may have started later than that.
-- KEYS: when the last one started. ARGV: the booking, the microseconds, the expiry.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], string.format('%.0f', ARGV[1] + ARGV[2]), 'PX', ARGV[3])
end
