-- KEYS: the workers of the fleet by when their lease ends, and by name.
-- ARGV: worker, microseconds of its lease (0: it leaves)
-- Answers {now, how many are alive, how many of those come before it by name}.
local parts = redis.call('TIME')
local now = parts[1] * 1000000 + parts[2]
local lease = tonumber(ARGV[2])
if lease > 0 then
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + lease), ARGV[1])
  redis.call('ZADD', KEYS[2], 0, ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, 1000)) do
  redis.call('ZREM', KEYS[1], dead)
  redis.call('ZREM', KEYS[2], dead)
end
redis.call('PEXPIRE', KEYS[1], 3600000)
redis.call('PEXPIRE', KEYS[2], 3600000)
return {now, redis.call('ZCARD', KEYS[2]), redis.call('ZRANK', KEYS[2], ARGV[1]) or 0}
