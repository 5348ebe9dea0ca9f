-- ARGV: prefix, id, requests, how many hosts at a time. Answers how many are left.
for _, from in ipairs({DUE, LATER}) do
  for _, host in ipairs(redis.call('ZRANGE', from, 0, ARGV[4] - 1)) do
    redis.call('DEL', prefix .. 'host:' .. host)
    redis.call('ZREM', from, host)
  end
end
local left = redis.call('ZCARD', DUE) + redis.call('ZCARD', LATER)
if left == 0 then
  for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    redis.call('DEL', prefix .. 'out:' .. worker)
  end
  redis.call('DEL', PACE, WORKERS, IDLE)
  redis.call('SET', COUNT, 0)
end
return left
