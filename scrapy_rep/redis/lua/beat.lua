-- ARGV: prefix, worker, microseconds of its lease, and for how long it holds hosts, how
-- many requests it has, those requests, the hosts that it holds
-- Answers how many requests were put back.
local worker, lease, hold, has = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local now = time()
local back = 0
redis.call('ZADD', WORKERS, text(now + lease), worker)
keep(prefix .. 'out:' .. worker)
for i = 1, 6 do
  keep(KEYS[i])
end

-- Once a day those that wait are kept for longer, too; a thousand at a time, as nobody else
-- is served meanwhile. Hosts that are asked are kept by that.
local from = redis.call('GET', KEPT)
if from ~= 'all' then
  local found = redis.call('ZSCAN', DUE, from or 0, 'COUNT', 1000)
  for i = 1, #found[2], 2 do
    keep(prefix .. 'host:' .. found[2][i])
  end
  if found[1] == '0' then
    redis.call('SET', KEPT, 'all', 'PX', 24 * HOUR)
  else
    redis.call('SET', KEPT, found[1], 'PX', KEPT_FOR)
  end
end

for i = 6 + has, #ARGV do
  local at = redis.call('ZSCORE', LATER, ARGV[i])
  if at then -- it may be parked for longer
    put_off(ARGV[i], math.max(now + hold, tonumber(at)))
  end
end

-- Handed out, but the answer was lost on its way: the worker does not have it.
local mine = {}
for i = 6, 5 + has do
  mine[ARGV[i]] = true
end
for _, id in ipairs(redis.call('HKEYS', prefix .. 'out:' .. worker)) do
  if not mine[id] then
    take_back(worker, id, now)
    back = back + 1
  end
end

-- A thousand at a time, too.
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', text(now), 'LIMIT', 0, 10)) do
  local out = prefix .. 'out:' .. dead
  for number, id in ipairs(redis.call('HKEYS', out)) do
    if number > 1000 then
      return back
    end
    take_back(dead, id, now)
    back = back + 1
  end
  redis.call('ZREM', WORKERS, dead)
end
return back
