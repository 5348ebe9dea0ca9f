-- Before each script of the queue. Times are whole microseconds of the server's own
-- clock, which no worker's clock can set wrong.
--
-- KEYS: all of one queue, so that they live in one slot of a cluster
--   due      hosts that may be asked, by since when
--   later    hosts that may not yet, by when they may
--   pace     host -> "free" (nothing asked of our speed), "paced", or "held" (a worker has one
--            of its requests, and has not told when that started); any other word is why
--            nobody may ask it before its time in later, such as "parked"; else unknown
--   count    how many requests wait or are handed out. No script trusts it alone: what waits
--            is looked for in due, later and out:W, and what does not agree is repaired
--   workers  worker -> until when it is taken for alive
--   clock    the latest time that any script has seen
--   idle     worker -> when it will ask again, as others are due before
--   nothing  never there (keys.py)
--   epoch    id (begin.lua), how many requests were ever queued since, and how many of those
--            the server has lost
-- and, made from the prefix in ARGV[1] (in the same slot, too):
--   host:H   requests that wait for host H, most urgent first
--   out:W    what worker W has been handed: request -> where it came from
--   blocked  hosts of which nothing is handed out until an operator says so
--   order    what an operator has ordered: "pause" or "drain"; missing: nothing
-- None of them expires while a worker is there or anything waits, so that no server which
-- makes room evicts them first; leave.lua has the rest of an empty queue expire, but for what
-- an operator has said, which holds until that is taken back.
--
-- ARGV[2] and ARGV[3] are the id and the number of requests that the worker has last read
-- of epoch. A server that has another id, or fewer, has forgotten what it said it had:
-- it was emptied, or came back without all of its data. Nothing is done then.
local DUE, LATER, PACE, COUNT, WORKERS, CLOCK, IDLE, EPOCH = unpack(KEYS)
local prefix = ARGV[1]
local BLOCKED, ORDER = prefix .. 'blocked', prefix .. 'order'
local FOREVER = 9000000000000000 -- the time of a blocked host: the year 2255
local HOUR = 3600000 -- in milliseconds
local KEPT_FOR = 90 * 24 * HOUR -- a queue that no worker uses any more

if ARGV[2] ~= '' then
  local known = redis.call('HMGET', EPOCH, 'id', 'queued')
  if known[1] ~= ARGV[2] or tonumber(known[2] or 0) < tonumber(ARGV[3]) then
    return redis.error_reply('REPFORGOT the server has lost a part of the queue')
  end
end

local function text(number) -- tostring() would write 1.7e+15
  return string.format('%.0f', number)
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
    redis.call('SET', CLOCK, text(now))
  end
  return now
end

local function count(more)
  if more ~= 0 then
    redis.call('INCRBY', COUNT, more)
  end
end

local function waiting(host)
  return redis.call('EXISTS', prefix .. 'host:' .. host) == 1
end

local function make_due(host, now)
  redis.call('ZREM', LATER, host)
  redis.call('ZADD', DUE, text(now), host)
end

local function put_off(host, at)
  redis.call('ZREM', DUE, host)
  redis.call('ZADD', LATER, text(at), host)
end

local function set_pace(host, pace)
  redis.call('HSET', PACE, host, pace)
end

local NOT_PARKED = {free = true, paced = true, held = true}
local function is_parked(host)
  local pace = redis.call('HGET', PACE, host)
  return pace and not NOT_PARKED[pace]
end

-- Hands out no request of *host* before *at*, whatever a worker that has one tells.
local function park(host, at, why)
  local until_now = is_parked(host) and tonumber(redis.call('ZSCORE', LATER, host) or 0) or 0
  if at >= until_now then -- else it is parked for longer, for what was told before
    set_pace(host, why)
  end
  put_off(host, math.max(at, until_now))
end

-- Whether *host*, or the one of which it is a line, is blocked.
local function is_blocked(host)
  return redis.call('SISMEMBER', BLOCKED, string.match(host, '^[^\n]*')) == 1
end

-- Has *host*, for which something waits now, be asked some time.
local function index(host, now)
  if not redis.call('ZSCORE', LATER, host) and not redis.call('ZSCORE', DUE, host) then
    make_due(host, now)
  end
end

-- Files again what *worker* was handed, if it still has it.
local function take_back(worker, id, now)
  local out = prefix .. 'out:' .. worker
  local packed = redis.call('HGET', out, id)
  if packed then
    local host, score, member = unpack(cmsgpack.unpack(packed))
    if redis.call('ZADD', prefix .. 'host:' .. host, score, member) == 0 then
      count(-1) -- it waits already
    end
    index(host, now)
    redis.call('HDEL', out, id)
  end
end

-- Forgets what *worker* is done with: the arguments from one number to another.
local function finish(worker, first, last)
  local gone = 0
  for i = first, last, 1000 do -- Lua hands over so many at a time
    local ids = {unpack(ARGV, i, math.min(last, i + 999))}
    gone = gone + redis.call('HDEL', prefix .. 'out:' .. worker, unpack(ids))
  end
  count(-gone)
end

-- Answers in how many microseconds *worker* is to ask again: when the first host is due that
-- no other idle worker will ask for.
local function next_turn(worker, now)
  redis.call('ZREMRANGEBYSCORE', IDLE, '-inf', text(now))
  redis.call('ZREM', IDLE, worker)
  local others = redis.call('ZRANGE', IDLE, 0, 99, 'WITHSCORES')
  local hosts = redis.call('ZRANGE', LATER, 0, #others / 2, 'WITHSCORES')
  local before = 0
  for i = 2, #hosts, 2 do
    local at = tonumber(hosts[i])
    if at >= FOREVER then
      break
    end
    while others[2 * before + 2] and tonumber(others[2 * before + 2]) <= at do
      before = before + 1
    end
    if before < i / 2 then
      redis.call('ZADD', IDLE, text(at), worker)
      return math.max(0, at - now)
    end
  end
  return 1000 * HOUR
end

-- Calls *act* with each member of a sorted set until it answers something; answers that.
local function each_of(key, act)
  local from = 0
  while true do
    local found = redis.call('ZRANGE', key, from, from + 999)
    for _, member in ipairs(found) do
      local answer = act(member)
      if answer then
        return answer
      end
    end
    if #found < 1000 then
      return false
    end
    from = from + 1000
  end
end

-- Whether a request waits, or is with a worker.
local function anything()
  return each_of(DUE, waiting) or each_of(LATER, waiting) or each_of(WORKERS, function(worker)
    return redis.call('EXISTS', prefix .. 'out:' .. worker) == 1
  end)
end

-- Answers {how many wait or are handed out, how many were lost, whether that is wrong}.
local function length()
  local counted = tonumber(redis.call('GET', COUNT) or -1) -- begin.lua has set it
  local lost = tonumber(redis.call('HGET', EPOCH, 'lost') or 0)
  if counted < 0 or anything() then
    return {math.max(1, counted), lost, counted > 0 and 0 or 1}
  end
  -- What is counted and is not there is with none of those that the scripts know of.
  return {counted, lost, counted == 0 and 0 or 1}
end
