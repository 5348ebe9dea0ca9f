-- ARGV: prefix, '', '', how many hosts not to tell of, and of how many to tell at most
-- Answers for each that may not be asked yet, the first one first: {host, how many of its
-- requests wait, "blocked", its pace or "", in how many microseconds it may be asked}.
local now = time()
local answer = {}
local hosts = redis.call('ZRANGE', LATER, ARGV[4], ARGV[4] + ARGV[5] - 1, 'WITHSCORES')
for i = 1, #hosts, 2 do
  answer[#answer + 1] = {
    hosts[i],
    redis.call('ZCARD', prefix .. 'host:' .. hosts[i]),
    is_blocked(hosts[i]) and 'blocked' or redis.call('HGET', PACE, hosts[i]) or '',
    text(math.max(0, hosts[i + 1] - now)),
  }
end
return answer
