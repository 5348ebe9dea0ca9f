-- Who is at work, and what an operator has ordered. KEYS: the workers; the orders.
-- ARGV: me ('': only look), for how many ms (0: I leave).
-- Answers the workers with the ms until their time is over, and the orders.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if ARGV[1] ~= '' then
  if ARGV[2] == '0' then
    redis.call('ZREM', KEYS[1], ARGV[1])
  else
    redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
  end
end
local workers = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 2, #workers, 2 do
  workers[i] = workers[i] - now
end
return {workers, redis.call('HGETALL', KEYS[2])}
