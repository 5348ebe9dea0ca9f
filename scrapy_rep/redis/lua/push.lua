-- ARGV: prefix, host, score, request, microseconds to park the host for (0: do not),
-- fingerprint (KEYS[8] is where those are), if any
-- Answers whether the request is new.
local host, score, member, wait = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
if KEYS[8] then
  local new = redis.call('SADD', KEYS[8], ARGV[6])
  keep(KEYS[8])
  if new == 0 then
    return 0
  end
end
local now = time()
count(file(host, score, member, now))
if wait > 0 then
  park(host, now + wait)
end
return 1
