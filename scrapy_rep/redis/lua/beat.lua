-- ARGV: prefix, id, requests, worker, microseconds of its lease, and for how long it holds
-- hosts, how many requests it has, those requests, the hosts that it holds
-- Answers how many requests were put back.
local worker, lease, hold, has = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local now = time()
local back = 0
redis.call('ZADD', WORKERS, text(now + lease), worker)

for i = 8 + has, #ARGV do
  local at = redis.call('ZSCORE', LATER, ARGV[i])
  if at then -- it may be parked for longer
    put_off(ARGV[i], math.max(now + hold, tonumber(at)))
  end
end

-- Handed out, but the answer was lost on its way: the worker does not have it.
local mine = {}
for i = 8, 7 + has do
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
