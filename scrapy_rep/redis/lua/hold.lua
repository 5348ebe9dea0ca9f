-- The request that was booked (start.lua) is still under way, or it is over.
-- KEYS: as start.lua has the first. ARGV: the booking, the microseconds for which it is held from
-- now on (0: it is over, and its delay begins now), and the milliseconds after its delay for which
-- the key is kept.
-- Answers whether it was the last one that was booked.
local last, delay = string.match(tostring(redis.pcall('GET', KEYS[1])), '^(%d+) ?(%d*) ?%d*$')
if last ~= ARGV[1] then
  return 0
end
local parts = redis.call('TIME')
local now = parts[1] * 1000000 + parts[2]
local held, kept_for = tonumber(ARGV[2]), ARGV[3] + (tonumber(delay) or 0) / 1000
if held > 0 then
  held = now + held
else
  last = math.max(now, tonumber(last))
end
local text = string.format('%.0f %.0f %.0f', last, tonumber(delay) or 0, held)
redis.call('SET', KEYS[1], text, 'PX', string.format('%.0f', kept_for))
return 1
