-- ARGV: prefix, host, score, request, microseconds to park the host for (0: do not),
-- fingerprint (KEYS[7] is where those are), if any
-- Answers whether the request is new.
local host, score, member, wait = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
if KEYS[7] and redis.call('SADD', KEYS[7], ARGV[6]) == 0 then
  return 0
end
local now = time()
count(file(host, score, member, now))
if wait > 0 then
  local at = now + wait
  if redis.call('HGET', PACE, host) == 'parked' then -- else it is only held
    at = math.max(at, tonumber(redis.call('ZSCORE', LATER, host) or 0))
  end
  redis.call('HSET', PACE, host, 'parked')
  put_off(host, at)
end
return 1
