-- ARGV: prefix, worker, what it is done with. The rest it gives back.
local worker = ARGV[2]
local out = prefix .. 'out:' .. worker
local now = time()
finish(worker, 3)
for _, id in ipairs(redis.call('HKEYS', out)) do
  take_back(worker, id, now)
end
redis.call('ZREM', WORKERS, worker)
