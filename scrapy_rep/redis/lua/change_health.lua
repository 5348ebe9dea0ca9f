-- change_health
-- What is known in common of how a host is, unless another worker has changed it.
-- KEYS: host -> that, hosts by when that changed. ARGV: host, what is taken to be known (empty:
-- nothing), what is to be (empty: the same), microseconds after which what does not change is
-- forgotten.
-- Answers what was known until now; equal to what was taken to be: it is changed.
local known = redis.pcall('HGET', KEYS[1], ARGV[1]) or ''
if known ~= ARGV[2] or ARGV[3] == '' then
  return known
end
local parts = redis.call('TIME')
local now = parts[1] * 1000000 + parts[2]
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[2], string.format('%.0f', now), ARGV[1])
local old = string.format('%.0f', now - ARGV[4])
for _, host in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', old, 'LIMIT', 0, 10)) do
  redis.call('HDEL', KEYS[1], host)
  redis.call('ZREM', KEYS[2], host)
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, string.format('%.0f', ARGV[4] / 1000))
end
return known
