-- A worker comes, or has found that the server has forgotten what it had.
-- ARGV: prefix, '', '', a new id
-- Answers {id, how many were ever queued, how many were lost, whether something waits that
-- has no epoch: an older version has queued it, or the server has lost that, how many hosts
-- are blocked}.
local old = redis.call('EXISTS', DUE, LATER, COUNT, WORKERS)
local new = redis.call('HSETNX', EPOCH, 'id', ARGV[4])
if new == 1 then
  redis.call('SETNX', COUNT, 0)
end
for _, key in ipairs(KEYS) do
  redis.call('PERSIST', key)
end
local known = redis.call('HMGET', EPOCH, 'id', 'queued', 'lost')
return {known[1], tonumber(known[2] or 0), tonumber(known[3] or 0), math.min(new, old), redis.call('SCARD', BLOCKED)}
