-- ARGV: prefix, '', '', hosts
-- Answers for each {how many of its requests wait, its pace or "", when it may be asked again
-- ("": now), whether it is blocked}.
local answer = {}
for i = 4, #ARGV do
  local host = ARGV[i]
  answer[#answer + 1] = {
    redis.call('ZCARD', prefix .. 'host:' .. host),
    redis.call('HGET', PACE, host) or '',
    redis.call('ZSCORE', LATER, host) or '',
    is_blocked(host) and 1 or 0,
  }
end
return answer
