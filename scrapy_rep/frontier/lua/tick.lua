-- Renew the leases of shards, and tell how all stand. KEYS: the owner of each shard.
-- ARGV: me, the lease in ms, and for each my term ('': it is not mine).
-- Answers for each {owner, epoch, filed, done, lost, how many lists have requests, how many
-- requests are out, 1 if it is mine for another lease, then what of it I do not know: list, how many
-- more wait there, ...}.
local answers = {}
for i, key in ipairs(KEYS) do
  local p, term = string.sub(key, 1, -6), ARGV[i + 2]
  local owner = redis.call('GET', key)
  local n = redis.call('HMGET', p .. 'n', 'epoch', 'term', 'filed', 'done', 'lost')
  local mine = term ~= '' and n[2] == term and (not owner or owner == ARGV[1])
  if mine and owner then
    redis.call('PEXPIRE', key, ARGV[2]) -- which a server does whose memory is full
  elseif mine then -- nobody has taken it since
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
  end
  answers[i] = {owner, n[1]}
  for _, number in ipairs({n[3] or 0, n[4] or 0, n[5] or 0, redis.call('SCARD', p .. 'lists'),
                           redis.call('HLEN', p .. 'out'), mine and 1 or 0}) do
    table.insert(answers[i], tonumber(number))
  end
  answers[i][9] = mine and redis.call('HGETALL', p .. 'news') or {}
  if mine then
    redis.call('DEL', p .. 'news')
  end
end
return answers
