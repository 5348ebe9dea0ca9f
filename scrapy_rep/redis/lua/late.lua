-- The request that was booked may have started later than that.
-- KEYS: as start.lua has the first. ARGV: the booking, the microseconds.
-- Answers whether it was the last one that was booked.
local last, delay = string.match(tostring(redis.pcall('GET', KEYS[1])), '^(%d+)( ?%d*)$')
if last ~= ARGV[1] then
  return 0
end
local kept_for = math.max(1, redis.call('PTTL', KEYS[1]))
redis.call('SET', KEYS[1], string.format('%.0f', ARGV[1] + ARGV[2]) .. delay, 'PX', kept_for)
return 1
