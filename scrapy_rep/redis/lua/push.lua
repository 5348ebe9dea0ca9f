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
  park(host, now + wait)
end
return 1
