-- Has the scripts know again of what waits, where due, later or workers were lost.
-- ARGV: prefix, id, requests, microseconds of a lease, how many hosts, those hosts, workers
-- Answers how many were not known.
local lease, hosts = tonumber(ARGV[4]), tonumber(ARGV[5])
local now = time()
local found = 0
for i = 6, 5 + hosts do
  local host = ARGV[i]
  redis.call('PERSIST', prefix .. 'host:' .. host)
  if waiting(host) and not redis.call('ZSCORE', LATER, host) and not redis.call('ZSCORE', DUE, host) then
    make_due(host, now)
    found = found + 1
  end
end
for i = 6 + hosts, #ARGV do
  local out = prefix .. 'out:' .. ARGV[i]
  redis.call('PERSIST', out)
  if redis.call('EXISTS', out) == 1 then -- one that is alive shows up until then
    found = found + redis.call('ZADD', WORKERS, 'NX', text(now + lease), ARGV[i])
  end
end
return found
