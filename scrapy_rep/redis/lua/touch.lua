-- Keeps the facts of a snapshot, whose body is the one already kept.
-- KEYS: the snapshot. ARGV: status, facts, encoding, may it stand alone, expiry, body
local kept = redis.call('HGET', KEYS[1], 'status')
if kept == ARGV[1] then
  redis.call('HSET', KEYS[1], 'facts', ARGV[2])
elseif not kept and ARGV[4] == '1' then
  redis.call('HSET', KEYS[1], 'status', ARGV[1], 'facts', ARGV[2], 'encoding', ARGV[3], 'body', ARGV[6])
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
