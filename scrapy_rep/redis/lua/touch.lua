-- Keeps the facts of a snapshot, whose body is the one already kept.
-- KEYS: the snapshot. ARGV: status, facts, may it stand alone, expiry; then all its fields
local kept = redis.call('HGET', KEYS[1], 'status')
if kept == ARGV[1] then
  redis.call('HSET', KEYS[1], 'facts', ARGV[2])
elseif not kept and ARGV[3] == '1' then
  redis.call('HSET', KEYS[1], 'status', ARGV[1], 'facts', ARGV[2], 'body', ARGV[5])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
