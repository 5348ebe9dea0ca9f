-- What came of pages, in one step for each shard: what its owner is done with, and new requests
-- with their fingerprints.
-- KEYS: the owner of each shard. ARGV: me, the beginning of channels; for each shard the number
-- of this batch, the shard's, my term ('': I do not own it), how many ids are done and how many
-- requests come; ids; and for each request its list (rank NUL place), 'L' (the last goes first) or
-- 'R', '1' (to hand) or '0', fingerprint ('': it may be filed twice), id and body.
-- Answers for each shard {1 if the term is over, the numbers of those requests that are not new}.
local me, channel, at, answers, told = ARGV[1], ARGV[2], 3, {}, {}
for _, key in ipairs(KEYS) do
  local p = string.sub(key, 1, -6)
  local batch, shard, term, done, new = unpack(ARGV, at, at + 4)
  local first = at + 5
  at = first + done + 5 * new
  local mine = term ~= '' and redis.call('HGET', p .. 'n', 'term') == term
  local answer, filed, waiting = {(term ~= '' and not mine) and 1 or 0}, 0, {}
  local number, before = string.match(redis.call('GET', p .. 'b:' .. me) or '', '^(%d+) (.*)$')
  if number == batch then -- it was heard, and its answer was lost
    answer = cjson.decode(before)
  elseif new + 0 > 0 then
    for i = 1, new do
      local nth = first + done + 5 * (i - 1)
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
            waiting[list] = (waiting[list] or 0) + 1
          end
        end
      end
    end
    if filed > 0 then
      redis.call('HINCRBY', p .. 'n', 'filed', filed)
    end
    if next(waiting) then
      local seq = redis.call('HINCRBY', p .. 'n', 'seq', 1)
      local owner = redis.call('GET', key)
      if owner then
        told[owner] = told[owner] or {}
        table.insert(told[owner], {shard + 0, seq, waiting})
      end
    end
    redis.call('SET', p .. 'b:' .. me, batch .. ' ' .. cjson.encode(answer), 'PX', 3600000)
  end
  if done + 0 > 0 and mine then -- after the others: a server whose memory is full refuses the first
    local gone = redis.call('HDEL', p .. 'out', unpack(ARGV, first, first + done - 1))
    redis.call('HINCRBY', p .. 'n', 'done', gone)
  end
  answers[#answers + 1] = answer
end
for owner, what in pairs(told) do
  redis.call('PUBLISH', channel .. owner, cjson.encode(what))
end
return answers
