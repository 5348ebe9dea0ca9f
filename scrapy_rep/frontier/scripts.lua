-- What runs in Redis: scripts, each after a line with its name. KEYS: if nothing is said, the owner of
-- a shard, or of each. Beside it are lists (which have requests), w:<list>, out (with the owner), seen
-- (fingerprints), n (numbers), news (of which the owner hears), hosts, b:<worker>. A list: rank NUL place.

---- beat
-- KEYS: the workers; the orders. ARGV: me ('': only look), for how many ms (0: I leave).
-- Answers the workers, with the ms until their time is over, and the orders.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if ARGV[1] ~= '' then
  if ARGV[2] == '0' then
    redis.call('ZREM', KEYS[1], ARGV[1])
  else
    redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
  end
end
local workers = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 2, #workers, 2 do
  workers[i] = workers[i] - now
end
return {workers, redis.call('HGETALL', KEYS[2])}

---- own
-- Take a shard that nobody owns. ARGV: me, the lease in ms, an epoch.
-- Answers nothing, or {term, how many its last owner had out, what that one told}.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return
end
local p = string.sub(KEYS[1], 1, -6)
-- A write that takes no memory: a server whose memory is full then lets the others pass.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('HSETNX', p .. 'n', 'epoch', ARGV[3])
local epoch = redis.call('HGET', p .. 'n', 'epoch')
local term = epoch .. ':' .. redis.call('HINCRBY', p .. 'n', 'number', 1)
redis.call('HSET', p .. 'n', 'term', term)
local facts = redis.call('GET', p .. 'hosts')
redis.call('DEL', p .. 'hosts', p .. 'news') -- it reads all of it
return {term, redis.call('HLEN', p .. 'out'), facts or '{}'}

---- tick
-- Renew leases, and tell how shards stand. ARGV: me, the lease in ms, my term of each ('': not mine).
-- Answers for each {owner, epoch, filed, done, lost, how many lists have requests, how many are out, 1
-- if it is mine for another lease, {list, how many more wait there than I know, ...}}.
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

---- lists
-- What waits, page by page. ARGV: where to go on, how many, pattern.
-- Answers {where to go on (0: that is all), list, how many wait in it, ...}.
local p = string.sub(KEYS[1], 1, -6)
local page = redis.call('SSCAN', p .. 'lists', ARGV[1], 'COUNT', ARGV[2], 'MATCH', ARGV[3])
local answer = {page[1]}
for _, list in ipairs(page[2]) do
  answer[#answer + 1] = list
  answer[#answer + 1] = redis.call('LLEN', p .. 'w:' .. list)
end
return answer

---- file
-- New requests, in one step for each shard. ARGV: me; for each shard the number of this batch, my term
-- ('': not mine), how many come; of each of these its list, 'L' (the last goes first) or 'R', '1' (to
-- hand) or '0', fingerprint ('': it may be filed twice), id and body.
-- Answers for each shard {1 if the term is over, the numbers of those that are not new}.
local me, at, answers = ARGV[1], 2, {}
for _, key in ipairs(KEYS) do
  local p = string.sub(key, 1, -6)
  local batch, term, new = unpack(ARGV, at, at + 2)
  local mine = term ~= '' and redis.call('HGET', p .. 'n', 'term') == term
  local answer, filed = {(term ~= '' and not mine) and 1 or 0}, 0
  local number, before = string.match(redis.call('GET', p .. 'b:' .. me) or '', '^(%d+) (.*)$')
  if number == batch then -- it was heard, and its answer was lost
    answer = cjson.decode(before)
  else
    for i = 1, new do
      local nth = at + 5 * i - 2
      local list, side, hand, print, body = unpack(ARGV, nth, nth + 4)
      if print ~= '' and redis.call('SADD', p .. 'seen', print) == 0 then
        answer[#answer + 1] = i
      else
        filed = filed + 1
        if mine and hand == '1' then
          redis.call('HSET', p .. 'out', string.sub(body, 1, 8), list .. '\0' .. body)
        else
          if redis.call(side .. 'PUSH', p .. 'w:' .. list, body) == 1 then
            redis.call('SADD', p .. 'lists', list)
          end
          if not mine then
            redis.call('HINCRBY', p .. 'news', list, 1)
          end
        end
      end
    end
    if filed > 0 then
      redis.call('HINCRBY', p .. 'n', 'filed', filed)
    end
    redis.call('SET', p .. 'b:' .. me, batch .. ' ' .. cjson.encode(answer), 'PX', 3600000)
  end
  at = at + 3 + 5 * new
  answers[#answers + 1] = answer
end
return answers

---- take
-- Requests for the owner. ARGV: my term, a list, how many.
-- Answers how many are left, and bodies; nothing: the term is over.
local p, list, out = string.sub(KEYS[1], 1, -6), ARGV[2], {}
if redis.call('HGET', p .. 'n', 'term') ~= ARGV[1] then
  return
end
local found = redis.call('LRANGE', p .. 'w:' .. list, 0, ARGV[3] - 1)
redis.call('LTRIM', p .. 'w:' .. list, ARGV[3], -1)
for _, body in ipairs(found) do
  out[#out + 1] = string.sub(body, 1, 8)
  out[#out + 1] = list .. '\0' .. body
end
if #out > 0 then
  redis.call('HSET', p .. 'out', unpack(out))
end
local left = redis.call('LLEN', p .. 'w:' .. list)
if left == 0 then
  redis.call('SREM', p .. 'lists', list)
end
return {left, unpack(found)}

---- done
-- What the owner is done with. ARGV: for each its term, how many ids come, ids. Answers for each 1 if
-- the term is over. A server whose memory is full takes it: what comes first needs none.
local at, answers = 1, {}
for i, key in ipairs(KEYS) do
  local p, last = string.sub(key, 1, -6), at + 1 + ARGV[at + 1]
  answers[i] = redis.call('HGET', p .. 'n', 'term') == ARGV[at] and 0 or 1
  if answers[i] == 0 then
    local gone = redis.call('HDEL', p .. 'out', unpack(ARGV, at + 2, last))
    redis.call('HINCRBY', p .. 'n', 'done', gone)
  end
  at = last + 1
end
return answers

---- back
-- Some of what is out waits again, before all others of its list. ARGV: my term, how many at the most.
-- Answers how many are left; -1: the term is over.
local p = string.sub(KEYS[1], 1, -6)
if redis.call('HGET', p .. 'n', 'term') ~= ARGV[1] then
  return -1
end
local cursor, found = '0', {}
repeat -- a page may be empty
  cursor, found = unpack(redis.call('HSCAN', p .. 'out', cursor, 'COUNT', ARGV[2]))
until #found > 0 or cursor == '0'
for i = 1, #found, 2 do -- id, and its list (rank NUL place) NUL body
  local at = string.find(found[i + 1], '\0', string.find(found[i + 1], '\0', 1, true) + 1, true)
  local list = string.sub(found[i + 1], 1, at - 1)
  redis.call('HDEL', p .. 'out', found[i])
  redis.call('LPUSH', p .. 'w:' .. list, string.sub(found[i + 1], at + 1))
  redis.call('SADD', p .. 'lists', list)
end
return redis.call('HLEN', p .. 'out')

---- free
-- Give a shard back. ARGV: my term, what to tell the next.
local p = string.sub(KEYS[1], 1, -6)
if redis.call('HGET', p .. 'n', 'term') ~= ARGV[1] then
  return 0
end
redis.call('HDEL', p .. 'n', 'term')
redis.call('DEL', KEYS[1])
redis.call('SET', p .. 'hosts', ARGV[2])
return 1

---- turn
-- Who may start a request, for all that ask a host. KEYS: its turn: 'held WHO DELAY DUE' while a
-- request is under way, 'paced WHEN DELAY' after its answer; all times in ms. Beside it is a key for as
-- long as the host is parked, which may be shorter than its delay.
-- ARGV: me; what (book, hold, over, park); the delay; for how long the key lives; for book: how long
-- before its time a start may be booked; for over: how long ago that was; and 1: the delay is what the
-- host asks, 0: that is not known, so that a longer one of others counts.
-- Answers {ms}: yes, in so many ms; {ms, why}: not before that, or the key changes.
local key, me, what, own, life, ms, is_known = KEYS[1], unpack(ARGV)
local parking = key .. '\0parked'
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local value = redis.call('GET', key) or ''
local state, whose, kept, due = string.match(value, '^(%a+) ?(%S*) ?(%S*) ?(%S*)$')
local mine, wait = state == 'held' and whose == me, 0
local delay = math.max(own + 0, is_known == '0' and tonumber(kept) or 0)
local its_life = life + delay - own
local function keep(state, whose, due)
  local its = string.format('%s %s %.0f%s', state, whose, delay, due or '')
  redis.call('SET', key, its, 'PX', its_life)
end
if what == 'book' then
  local parked = redis.call('PTTL', parking)
  if parked > 0 then
    return {parked, 'parked'}
  elseif state == 'held' and not mine then
    local left = redis.call('PTTL', key)
    if left < 0 then -- none of ours has written that
      redis.call('PEXPIRE', key, life)
      left = life + 0
    end
    return {left, state}
  elseif value ~= '' and not mine then
    local last = tonumber(whose) or now
    if state ~= 'paced' or last > now then -- or the clock was set back: since when is not known
      last = now
      keep('paced', string.format('%.3f', now))
    end
    wait = math.max(0, math.ceil(last + delay - now))
    if wait > ms + 0 then
      return {wait, 'paced'}
    end
  elseif mine and due ~= '' then -- asked again, as the answer was lost
    wait = math.min(ms + 0, math.max(0, math.ceil(due - now)))
  end
  keep('held', me, string.format(' %.0f', now + wait))
elseif what == 'hold' and mine then
  redis.call('PEXPIRE', key, its_life)
elseif what == 'over' and mine then
  keep('paced', string.format('%.3f', now - ms))
elseif what == 'park' and redis.call('PTTL', parking) < life + 0 then
  redis.call('SET', parking, '', 'PX', life)
end
return {wait}

---- purge
-- Delete what waits in lists. ARGV: these. Answers how many.
local p, gone = string.sub(KEYS[1], 1, -6), 0
for _, list in ipairs(ARGV) do
  local number = redis.call('LLEN', p .. 'w:' .. list)
  gone = gone + number
  redis.call('DEL', p .. 'w:' .. list)
  redis.call('SREM', p .. 'lists', list)
  redis.call('HINCRBY', p .. 'news', list, -number)
end
redis.call('HINCRBY', p .. 'n', 'done', gone)
redis.call('HINCRBY', p .. 'n', 'purged', gone)
return gone

---- index
-- To which lists does the index not lead, or for nothing? ARGV: 1 to put that right, or 0; lists.
-- Answers {list, how many wait in it, ...}.
local p, wrong = string.sub(KEYS[1], 1, -6), {}
for i = 2, #ARGV do
  local number = redis.call('LLEN', p .. 'w:' .. ARGV[i])
  if (redis.call('SISMEMBER', p .. 'lists', ARGV[i]) == 1) ~= (number > 0) then
    wrong[#wrong + 1] = ARGV[i]
    wrong[#wrong + 1] = number
    if ARGV[1] == '1' then
      redis.call(number > 0 and 'SADD' or 'SREM', p .. 'lists', ARGV[i])
      redis.call('HINCRBY', p .. 'news', ARGV[i], number)
    end
  end
end
return wrong

---- count
-- ARGV: 1 to put the books right, or 0. Answers how many should be there, and how many are.
local p, there = string.sub(KEYS[1], 1, -6), 0
for _, list in ipairs(redis.call('SMEMBERS', p .. 'lists')) do
  there = there + redis.call('LLEN', p .. 'w:' .. list)
end
there = there + redis.call('HLEN', p .. 'out')
local n = redis.call('HMGET', p .. 'n', 'filed', 'done')
local should = (n[1] or 0) - (n[2] or 0)
if ARGV[1] == '1' and there ~= should then
  redis.call('HINCRBY', p .. 'n', 'done', should - there)
  redis.call('HINCRBY', p .. 'n', 'lost', math.max(0, should - there))
end
return {should, there}

---- flush
-- Delete a shard, some lists at a time. ARGV: how many. Answers how many are left.
local p = string.sub(KEYS[1], 1, -6)
for _, list in ipairs(redis.call('SPOP', p .. 'lists', ARGV[1])) do
  redis.call('UNLINK', p .. 'w:' .. list)
end
local left = redis.call('SCARD', p .. 'lists')
if left == 0 then
  redis.call('UNLINK', p .. 'out', p .. 'seen', p .. 'n', p .. 'news', p .. 'hosts', KEYS[1])
end
return left
