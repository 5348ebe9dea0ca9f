-- Looks whether due, later and workers agree with what waits and what is handed out, and has
-- them do so.
-- ARGV: prefix, id, requests, microseconds of a lease, whether to look only, how many hosts,
-- those hosts, workers
-- Answers what was wrong: for each of it its kind, the host or worker, how many requests.
local lease, acts, hosts = tonumber(ARGV[4]), ARGV[5] == '0', tonumber(ARGV[6])
local now = time()
local found = {}
local function note(kind, name, number)
  for _, value in ipairs({kind, name, number}) do
    found[#found + 1] = value
  end
end

for i = 7, 6 + hosts do
  local host = ARGV[i]
  local number = redis.call('ZCARD', prefix .. 'host:' .. host)
  local is_later, is_due = redis.call('ZSCORE', LATER, host), redis.call('ZSCORE', DUE, host)
  if acts then
    redis.call('PERSIST', prefix .. 'host:' .. host)
  end
  if number > 0 and not is_later and not is_due then
    note('unknown_host', host, number)
    if acts then
      make_due(host, now)
    end
  elseif is_due and (is_later or number == 0) then
    note(is_later and 'host_twice' or 'empty_host', host, number)
    if acts then
      redis.call('ZREM', DUE, host)
    end
  end
end

for i = 7 + hosts, #ARGV do
  local worker = ARGV[i]
  local out = prefix .. 'out:' .. worker
  local number, ends = redis.call('HLEN', out), redis.call('ZSCORE', WORKERS, worker)
  if acts then
    redis.call('PERSIST', out)
  end
  if number > 0 and not ends then
    note('unknown_worker', worker, number)
    if acts then -- one that is alive shows up until then
      redis.call('ZADD', WORKERS, text(now + lease), worker)
    end
  elseif number > 0 and tonumber(ends) <= now then
    note('dead_worker', worker, number)
    if acts then
      for _, id in ipairs(redis.call('HKEYS', out)) do
        take_back(worker, id, now)
      end
      redis.call('ZREM', WORKERS, worker)
    end
  end
end
return found
