-- May a request to a host start now? One script for one host, shared by all spiders.
-- KEYS: when the last one started, or was over (hold.lua), the microseconds that were to lie
-- before it, and until when it is held, as it is under way (0: it is not); for how long the host
-- was parked (park.lua).
-- ARGV: microseconds that are to lie between two (0: the asker does not know, so as many as
-- before), milliseconds after those for which it is kept, the microseconds since when Redis
-- is told of all starts ('': it always was), and those for which the start is held.
-- Answers {0, now}: yes, and it is booked; {microseconds to wait}: not yet; {microseconds,
-- 1}: not yet, as the host is parked.
local left = redis.call('PTTL', KEYS[2])
if left > 0 then
  local asked = tonumber(redis.pcall('GET', KEYS[2]))
  if asked and left > asked then
    -- The server's clock was set back: how much of it has passed is not known.
    left = math.max(1, asked)
    redis.call('PEXPIRE', KEYS[2], string.format('%.0f', left))
  end
  return {left * 1000, 1}
end
local parts = redis.call('TIME')
local now = parts[1] * 1000000 + parts[2]
local delay, told_for = tonumber(ARGV[1]), tonumber(ARGV[3])
local kept = redis.pcall('GET', KEYS[1])
local last, before, held = 0, 0, 0
if kept then
  last, before, held = string.match(tostring(kept), '^(%d+) ?(%d*) ?(%d*)$')
  last, before, held = tonumber(last), tonumber(before) or 0, tonumber(held) or 0
end
if delay == 0 then
  delay = before
end
local function keep(at, held_until)
  local text = string.format('%.0f %.0f %.0f', at, delay, held_until)
  redis.call('SET', KEYS[1], text, 'PX', string.format('%.0f', ARGV[2] + delay / 1000))
end
if not last or last > now then
  -- The server's clock was set back, or it is no time: how long ago it was is not known, so
  -- once more.
  last, held = now, 0
  keep(last, held)
end
if held > now then
  -- Its delay begins when it is over, so that whoever looks twice in a delay comes in time.
  local again = delay > 0 and delay / 2 or 50000
  return {math.max(1, math.min(again, held - now))}
end
if told_for then -- until then others may have asked
  last = math.max(last, now - told_for)
end
if last + delay > now then
  return {last + delay - now}
end
keep(now, now + ARGV[4])
return {0, now}
