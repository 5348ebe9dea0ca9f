-- ARGV: prefix, id, requests, whether to look only. Answers {how many there are, how many
-- were counted, how many were lost in all}.
local found = 0
local function wait(host)
  found = found + redis.call('ZCARD', prefix .. 'host:' .. host)
end
each_of(DUE, wait)
each_of(LATER, wait)
each_of(WORKERS, function(worker)
  found = found + redis.call('HLEN', prefix .. 'out:' .. worker)
end)
local counted = tonumber(redis.call('GET', COUNT) or 0)
if ARGV[4] == '1' then
  return {found, counted, tonumber(redis.call('HGET', EPOCH, 'lost') or 0)}
end
redis.call('SET', COUNT, found)
return {found, counted, redis.call('HINCRBY', EPOCH, 'lost', math.max(0, counted - found))}
