-- ARGV: prefix, '', ''. Writes nothing.
-- Answers {now, what is ordered or "", how many are counted, were ever queued, lost and
-- purged, the blocked hosts, and for each worker {its name, when its lease ends, and for each
-- host of which it has requests that host and how many}}.
local known = redis.call('HMGET', EPOCH, 'queued', 'lost', 'purged')
local parts = redis.call('TIME')
local workers = {}
for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
  local has, each = {}, {worker, redis.call('ZSCORE', WORKERS, worker)}
  for _, packed in ipairs(redis.call('HVALS', prefix .. 'out:' .. worker)) do
    local host = cmsgpack.unpack(packed)[1]
    has[host] = (has[host] or 0) + 1
  end
  for host, number in pairs(has) do
    each[#each + 1] = host
    each[#each + 1] = number
  end
  workers[#workers + 1] = each
end
return {
  text(parts[1] * 1000000 + parts[2]), redis.call('GET', ORDER) or '', tonumber(redis.call('GET', COUNT) or 0),
  tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0),
  redis.call('SMEMBERS', BLOCKED), workers,
}
