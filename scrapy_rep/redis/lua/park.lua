-- A site wants to be left alone: no request to it is confirmed until then (start.lua).
-- KEYS: for how long, which expires then. ARGV: milliseconds
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[1])
end
