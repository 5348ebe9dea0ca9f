-- ARGV: prefix, worker, microseconds for which a host is held, how many hosts have no
-- free place, those hosts, what the worker is done with
-- Answers {request, host, pace}, or {microseconds until a host is due; an hour: none is}.
local worker, hold, full = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local now = time()
local out = prefix .. 'out:' .. worker
local NOTHING_DUE = {1000 * HOUR}

-- Not only by its signs of life: before the next one all may have been deleted.
redis.call('ZADD', WORKERS, 'NX', text(now + hold), worker)
keep(WORKERS)
finish(worker, 5 + full)

for _, host in ipairs(redis.call('ZRANGEBYSCORE', LATER, '-inf', text(now), 'LIMIT', 0, 100)) do
  if redis.call('HGET', PACE, host) == 'parked' then
    redis.call('HDEL', PACE, host)
  end
  if waiting(host) then
    make_due(host, now - 1000000) -- ahead of those that come round all the time
  else -- its time is over, and nothing waits: what is known of it is not worth keeping
    redis.call('ZREM', LATER, host)
    redis.call('HDEL', PACE, host)
  end
end

local skip = {}
for i = 5, 4 + full do
  skip[ARGV[i]] = true
end
for _, host in ipairs(redis.call('ZRANGE', DUE, 0, full)) do
  local requests = prefix .. 'host:' .. host
  local first = redis.call('ZRANGE', requests, 0, 0, 'WITHSCORES')
  if not first[1] then -- the server has evicted them
    redis.call('ZREM', DUE, host)
  elseif not skip[host] then
    local id = string.sub(first[1], 1, 16)
    local pace = redis.call('HGET', PACE, host) or ''
    redis.call('ZREM', requests, first[1])
    redis.call('HSET', out, id, cmsgpack.pack({host, first[2], first[1]}))
    keep(out)
    keep(requests)
    if pace ~= 'free' then
      put_off(host, now + hold) -- until the worker tells when it started
    elseif waiting(host) then
      make_due(host, now) -- behind the others
    else
      redis.call('ZREM', DUE, host)
      redis.call('HDEL', PACE, host)
    end
    return {first[1], host, pace}
  end
end

local next = redis.call('ZRANGE', LATER, 0, 0, 'WITHSCORES')
if next[2] then
  return {math.max(0, tonumber(next[2]) - now)}
end
if redis.call('EXISTS', DUE) == 1 then -- hosts that this worker has no place for
  return NOTHING_DUE
end
-- Nothing waits. Where nobody has anything in hand, the server has evicted what is counted.
for _, each in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
  if redis.call('EXISTS', prefix .. 'out:' .. each) == 1 then
    return NOTHING_DUE
  end
end
redis.call('DEL', COUNT)
return NOTHING_DUE
