-- The turns of hosts, for all that ask them. KEYS: the turn of each: 'held WHO DELAY' while a
-- request is under way, 'paced WHEN DELAY' after its answer, or 'parked'; all times in ms.
-- ARGV: me; for each shard how many hosts; and for each of those what (book, hold, over, park), the
-- delay (0: not known, so that of others), for how long the key lives, and for book: how long
-- before its time a start may be booked; for over: how long ago that was.
-- Answers for each shard, for each host {ms}: yes, in so many ms; {ms, why}: not before that, or
-- the key changes.
local me, time, answers, at, nth = ARGV[1], redis.call('TIME'), {}, 2, 0
local now = time[1] * 1000 + time[2] / 1000
local function turn(key, what, delay, life, ms)
  local value, left = redis.call('GET', key) or '', redis.call('PTTL', key)
  local state, whose, kept = string.match(value, '^(%a+) ?(%S*) ?(%S*)$')
  local mine, wait = state == 'held' and whose == me, 0
  delay = delay == '0' and tonumber(kept) or delay + 0
  local function keep(state, whose)
    redis.call('SET', key, string.format('%s %s %.0f', state, whose, delay), 'PX', life)
  end
  if what == 'book' then
    if state == 'parked' or (state == 'held' and not mine) then
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
    end
    keep('held', me)
  elseif what == 'hold' and mine then
    redis.call('PEXPIRE', key, life)
  elseif what == 'over' and mine then
    keep('paced', string.format('%.3f', now - ms))
  elseif what == 'park' and not (state == 'parked' and left > life + 0) then
    redis.call('SET', key, 'parked', 'PX', life)
  end
  return {wait}
end
while at <= #ARGV do
  local answer, last = {}, at + 4 * ARGV[at]
  for i = at + 1, last, 4 do
    nth = nth + 1
    answer[#answer + 1] = turn(KEYS[nth], unpack(ARGV, i, i + 3))
  end
  answers[#answers + 1] = answer
  at = last + 1
end
return answers
