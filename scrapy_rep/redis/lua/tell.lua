-- What a worker has learned of a host, by the request that it was handed for it.
-- ARGV: prefix, host, "free", "paced" or "parked", microseconds until it may be asked again
local host, pace, wait = ARGV[2], ARGV[3], tonumber(ARGV[4])
local now = time()
if pace == 'parked' then
  park(host, now + wait)
  return
end
if redis.call('HGET', PACE, host) == 'parked' then
  return
end
set_pace(host, pace)
if wait > 0 then
  put_off(host, now + wait)
elseif waiting(host) then
  make_due(host, now)
else
  redis.call('ZREM', LATER, host)
  redis.call('HDEL', PACE, host)
end
