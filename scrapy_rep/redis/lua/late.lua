-- The request that was booked may have started later than that.
-- KEYS: when the last one started. ARGV: the booking, the microseconds.
-- Answers whether it was the last one that was booked.
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local kept_for = math.max(1, redis.call('PTTL', KEYS[1]))
redis.call('SET', KEYS[1], string.format('%.0f', ARGV[1] + ARGV[2]), 'PX', kept_for)
return 1
