-- KEYS: the workers of the fleet. ARGV: worker, microseconds of its lease (0: it leaves)
-- Answers {now, workers that are alive}.
local parts = redis.call('TIME')
local now = parts[1] * 1000000 + parts[2]
local lease = tonumber(ARGV[2])
if lease > 0 then
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + lease), ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], 3600000)
return {now, redis.call('ZRANGE', KEYS[1], 0, -1)}
