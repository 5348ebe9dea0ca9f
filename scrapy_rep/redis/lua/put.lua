-- What has come of pages: requests, what a worker has learned of hosts, and which of those
-- that it was handed it is done with. All or nothing, so that nothing is lost in between.
-- KEYS[10]: the fingerprints, if any
-- ARGV: prefix, id, requests, worker, whether it could take more, how many it is done with,
-- those, how many hosts, for each the host, its pace, which may be why it is parked, and the
-- microseconds until it may be asked again; for each request its host, score, itself, and its
-- fingerprint, or ""
-- Answers {how many were ever queued, how many wait or are handed out, whether a host is due,
-- microseconds until it is to ask again, and which requests (the first is 1) are not new}.
local worker, done = ARGV[4], tonumber(ARGV[6])
local now = time()
local told = 7 + done
local first = told + 1 + 3 * tonumber(ARGV[told])

local old = {}
local by_host = {}
for i = first, #ARGV, 4 do
  local host, fingerprint = ARGV[i], ARGV[i + 3]
  if fingerprint ~= '' and redis.call('SADD', KEYS[10], fingerprint) == 0 then
    old[#old + 1] = (i - first) / 4 + 1
  else
    local requests = by_host[host] or {}
    by_host[host] = requests
    requests[#requests + 1] = ARGV[i + 1]
    requests[#requests + 1] = ARGV[i + 2]
  end
end
local new, queued = 0, 0
for host, requests in pairs(by_host) do
  queued = queued + #requests / 2
  for i = 1, #requests, 1000 do
    new = new + redis.call('ZADD', prefix .. 'host:' .. host, unpack(requests, i, math.min(#requests, i + 999)))
  end
  index(host, now)
end
if KEYS[10] then
  redis.call('PERSIST', KEYS[10])
end
count(new)

for i = told + 1, first - 1, 3 do
  local host, pace, wait = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  if not NOT_PARKED[pace] then
    park(host, now + wait, pace)
  elseif not is_parked(host) then
    if wait > 0 then
      redis.call('HSET', PACE, host, pace)
      put_off(host, now + wait)
    elseif waiting(host) then
      redis.call('HSET', PACE, host, pace)
      make_due(host, now)
    else
      redis.call('ZREM', LATER, host)
      redis.call('HDEL', PACE, host)
    end
  end
end

finish(worker, 7, 6 + done)
local wait = ARGV[5] == '1' and next_turn(worker, now) or 1000 * HOUR
local total = queued > 0 and redis.call('HINCRBY', EPOCH, 'queued', queued) or tonumber(ARGV[3])
return {total, tonumber(redis.call('GET', COUNT) or 0), redis.call('EXISTS', DUE), wait, unpack(old)}
