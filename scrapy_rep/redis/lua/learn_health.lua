-- learn_health
-- What has changed of how hosts are.
-- KEYS: as change_health.lua. ARGV: since when, how many at the most.
-- Answers {until when, host, what is known of it, ...}.
local parts = redis.call('TIME')
local changed = redis.call(
  'ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local answer = {string.format('%.0f', parts[1] * 1000000 + parts[2])}
for i = 1, #changed, 2 do
  answer[1] = changed[i + 1]
  answer[#answer + 1] = changed[i]
  answer[#answer + 1] = redis.call('HGET', KEYS[1], changed[i]) or ''
end
return answer
