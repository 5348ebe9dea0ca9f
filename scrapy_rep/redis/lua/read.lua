-- Answers a snapshot: status, facts, encoding and body, as far as it has them; nothing where
-- there is none, an empty list where something else is there, or more than may be.
-- KEYS: the snapshot. ARGV: the octets that it has at the most
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return false
elseif kind ~= 'hash' then
  return {}
end
local octets = 0
for _, field in ipairs({'status', 'facts', 'encoding', 'body'}) do
  octets = octets + redis.call('HSTRLEN', KEYS[1], field)
end
if octets > tonumber(ARGV[1]) then
  return {}
end
return redis.call('HMGET', KEYS[1], 'status', 'facts', 'encoding', 'body')
