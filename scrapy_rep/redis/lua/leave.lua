-- ARGV: prefix, id, requests, worker, what it is done with. The rest it gives back.
-- KEYS[10]: the fingerprints, if any
local worker = ARGV[4]
local out = prefix .. 'out:' .. worker
local now = time()
finish(worker, 5, #ARGV)
for _, id in ipairs(redis.call('HKEYS', out)) do
  take_back(worker, id, now)
end
redis.call('ZREM', WORKERS, worker)
redis.call('ZREM', IDLE, worker)
if redis.call('EXISTS', WORKERS) == 0 and not anything() then
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, KEPT_FOR)
  end
end
