-- Before each script of the queue. Times are whole microseconds of the server's own
-- clock, which no worker's clock can set wrong.
--
-- KEYS: all of one queue, so that they live in one slot of a cluster
--   due      hosts that may be asked, by since when
--   later    hosts that may not yet, by when they may
--   pace     host -> "free" (nothing asked of our speed), "paced" or "parked"; else unknown
--   count    how many requests wait or are handed out
--   workers  worker -> until when it is taken for alive
--   clock    the latest time that any script has seen
--   kept     how far beat.lua has come with having the hosts kept
-- and, made from the prefix in ARGV[1] (in the same slot, too):
--   host:H   requests that wait for host H, most urgent first
--   out:W    what worker W has been handed: request -> where it came from
local DUE, LATER, PACE, COUNT, WORKERS, CLOCK, KEPT = unpack(KEYS)
local prefix = ARGV[1]
local HOUR = 3600000 -- in milliseconds
local KEPT_FOR = 90 * 24 * HOUR -- a queue that no worker uses any more

local function text(number) -- tostring() would write 1.7e+15
  return string.format('%.0f', number)
end

local function keep(key)
  redis.call('PEXPIRE', key, KEPT_FOR)
end

local function shift(key, back)
  local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    redis.call('ZADD', key, text(tonumber(all[i + 1]) - back), all[i])
  end
end

local function time()
  local parts = redis.call('TIME')
  local now = parts[1] * 1000000 + parts[2]
  local seen = tonumber(redis.call('GET', CLOCK) or 0)
  if seen - now > 1000000 then
    -- The server's clock was set back. What was to be in a second still is.
    shift(LATER, seen - now)
    shift(WORKERS, seen - now)
  end
  if seen - now > 1000000 or now > seen then
    redis.call('SET', CLOCK, text(now), 'PX', KEPT_FOR)
  end
  return now
end

local function count(more)
  if more == 0 then
    return
  elseif redis.call('INCRBY', COUNT, more) <= 0 then
    redis.call('DEL', COUNT)
  else
    keep(COUNT)
  end
end

local function waiting(host)
  return redis.call('EXISTS', prefix .. 'host:' .. host) == 1
end

local function make_due(host, now)
  redis.call('ZREM', LATER, host)
  redis.call('ZADD', DUE, text(now), host)
  keep(DUE)
end

local function put_off(host, at)
  redis.call('ZREM', DUE, host)
  redis.call('ZADD', LATER, text(at), host)
  keep(LATER)
end

local function set_pace(host, pace)
  redis.call('HSET', PACE, host, pace)
  keep(PACE)
end

-- Hands out no request of *host* before *at*, whatever a worker that has one tells.
local function park(host, at)
  if redis.call('HGET', PACE, host) == 'parked' then -- else it is only held
    at = math.max(at, tonumber(redis.call('ZSCORE', LATER, host) or 0))
  end
  set_pace(host, 'parked')
  put_off(host, at)
end

-- Files a request; its host keeps the time that it has, or is due now.
local function file(host, score, member, now)
  local added = redis.call('ZADD', prefix .. 'host:' .. host, score, member)
  keep(prefix .. 'host:' .. host)
  if not redis.call('ZSCORE', LATER, host) and not redis.call('ZSCORE', DUE, host) then
    make_due(host, now)
  end
  return added
end

-- Files again what *worker* was handed, if it still has it.
local function take_back(worker, id, now)
  local out = prefix .. 'out:' .. worker
  local packed = redis.call('HGET', out, id)
  if packed then
    local host, score, member = unpack(cmsgpack.unpack(packed))
    if file(host, score, member, now) == 0 then
      count(-1) -- it waits already
    end
    redis.call('HDEL', out, id)
  end
end

-- Forgets what *worker* is done with: the arguments from that number on.
local function finish(worker, first)
  for i = first, #ARGV do
    count(-redis.call('HDEL', prefix .. 'out:' .. worker, ARGV[i]))
  end
end
