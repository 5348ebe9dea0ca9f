-- ARGV: prefix, '', '', whether to block, a host, lines of it, which may be itself
-- Answers {whether that is new, how many requests wait in those lines}.
local blocks, host = ARGV[4] == '1', ARGV[5]
local now = time()
local new = redis.call(blocks and 'SADD' or 'SREM', BLOCKED, host)
local waits = 0
for i = 6, #ARGV do
  local line = ARGV[i]
  waits = waits + redis.call('ZCARD', prefix .. 'host:' .. line)
  local at = tonumber(redis.call('ZSCORE', LATER, line) or 0)
  if blocks and waiting(line) then
    put_off(line, FOREVER)
  elseif not blocks and at >= FOREVER / 2 then
    redis.call('HDEL', PACE, line) -- whether it is still parked is found out by who asks it
    if waiting(line) then
      make_due(line, now)
    else
      redis.call('ZREM', LATER, line)
    end
  end
end
return {new, waits}
