-- May a request to a host start now? One script for one host, shared by all spiders.
-- KEYS: when the last one started, for how long the host was parked (park.lua).
-- ARGV: microseconds that are to lie between two, milliseconds after which that is over.
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
local delay = tonumber(ARGV[1])
local last = tonumber(redis.pcall('GET', KEYS[1]) or 0)
if not last or not (last <= now) then
  -- The server's clock was set back, or it is no time: how long ago it was is not known, so
  -- once more.
  last = now
  redis.call('SET', KEYS[1], string.format('%.0f', last), 'PX', ARGV[2])
end
if last + delay > now then
  return {last + delay - now}
end
redis.call('SET', KEYS[1], string.format('%.0f', now), 'PX', ARGV[2])
return {0, now}
