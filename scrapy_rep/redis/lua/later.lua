-- ARGV: prefix, '', '', how many hosts at most
-- Answers for each that may not be asked yet, the first one first: {host, how many of its
-- requests wait, "blocked", its pace or "", in how many microseconds it may be asked}.
local now = time()
local answer = {}
local hosts = redis.call('ZRANGE', LATER, 0, ARGV[4] - 1, 'WITHSCORES')
for i = 1, #hosts, 2 do
  local number = redis.call('ZCARD', prefix .. 'host:' .. hosts[i])
  if number > 0 then
    answer[#answer + 1] = {
      hosts[i],
      number,
      is_blocked(hosts[i]) and 'blocked' or redis.call('HGET', PACE, hosts[i]) or '',
      text(math.max(0, hosts[i + 1] - now)),
    }
  end
end
return answer
