-- ARGV: prefix, id, requests. Answers {how many wait or are handed out, how many were lost,
-- whether that is wrong, how many were ever queued}.
local answer = length()
answer[4] = tonumber(redis.call('HGET', EPOCH, 'queued') or 0)
return answer
