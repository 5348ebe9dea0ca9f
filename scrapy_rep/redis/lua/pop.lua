-- ARGV: prefix, id, requests, worker, microseconds for which a host is held, how many requests
-- it wants, how many at most of a host of which nothing is asked, how many hosts it has
-- already, and for each of those the host and how many more may be had of it
-- Answers {microseconds until it is to ask again (-1: the queue is paused, -2: it is being
-- drained), how many wait or are handed out (-1: not
-- looked, as there was all that it wants), how many were lost, whether that is wrong, and for
-- each request itself, its host and the host's pace}.
local worker, hold, want = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local most, has = tonumber(ARGV[7]), tonumber(ARGV[8])
local now = time()
local out = prefix .. 'out:' .. worker

-- Not only by its signs of life: before the next one all may have been deleted.
redis.call('ZADD', WORKERS, 'NX', text(now + hold), worker)

local order = redis.call('GET', ORDER)
if order then
  return {order == 'drain' and -2 or -1, unpack(length())}
end

for _, host in ipairs(redis.call('ZRANGEBYSCORE', LATER, '-inf', text(now), 'LIMIT', 0, 100)) do
  if is_parked(host) then
    redis.call('HDEL', PACE, host)
  end
  if waiting(host) then
    make_due(host, now - 1000000) -- ahead of those that come round all the time
  else -- its time is over, and nothing waits: what is known of it is not worth keeping
    redis.call('ZREM', LATER, host)
    redis.call('HDEL', PACE, host)
  end
end

local left = {}
for i = 9, 8 + 2 * has, 2 do
  left[ARGV[i]] = tonumber(ARGV[i + 1])
end
local found, hand, more = {}, {}, {}
local function take(host, pace, number)
  local first = redis.call('ZPOPMIN', prefix .. 'host:' .. host, number)
  for i = 1, #first, 2 do
    hand[#hand + 1] = string.sub(first[i], 1, 16)
    hand[#hand + 1] = cmsgpack.pack({host, first[i + 1], first[i]})
    found[#found + 1] = first[i]
    found[#found + 1] = host
    found[#found + 1] = pace
  end
  if #first > 0 and pace ~= 'free' then
    set_pace(host, 'held')
    put_off(host, now + hold) -- until the worker tells when it started
  elseif waiting(host) then
    redis.call('ZADD', DUE, text(now), host) -- behind the others
    more[#more + 1] = host
  else -- nothing is left, or the server has lost it, which the count will tell
    redis.call('ZREM', DUE, host)
    redis.call('HDEL', PACE, host)
  end
end
local hosts = redis.call('ZRANGE', DUE, 0, has + want - 1)
local paces = #hosts > 0 and redis.call('HMGET', PACE, unpack(hosts))
local blocks, has_met_blocked = redis.call('EXISTS', BLOCKED) == 1, false
for number, host in ipairs(hosts) do
  if blocks and is_blocked(host) then
    put_off(host, FOREVER)
    has_met_blocked = true
  elseif #hand < 2 * want and (left[host] or most) > 0 then
    take(host, paces[number] or '', 1)
  end
end
for _, host in ipairs({unpack(more)}) do -- of which nothing is asked
  local number = math.min((left[host] or most) - 1, want - #hand / 2)
  if number > 0 then
    take(host, 'free', number)
  end
end
if #hand > 0 then
  redis.call('HSET', out, unpack(hand))
end
if #hand == 2 * want then
  return {0, -1, 0, 0, unpack(found)}
end
local all, lost, wrong = unpack(length())
-- Behind those that are blocked there may be others.
return {has_met_blocked and 0 or next_turn(worker, now), all, lost, wrong, unpack(found)}
