-- Who may start a request, for all that ask a host. KEYS: its turn: 'held WHO DELAY DUE' while a
-- request is under way, 'paced WHEN DELAY' after its answer, or 'parked'; all times in ms.
-- ARGV: me; what (book, hold, over, park); the delay (0: not known, so that of others); for how
-- long the key lives; and for book: how long before its time a start may be booked; for over: how
-- long ago that was.
-- Answers {ms}: yes, in so many ms; {ms, why}: not before that, or the key changes.
local key, me, what, delay, life, ms = KEYS[1], unpack(ARGV)
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local value, left = redis.call('GET', key) or '', redis.call('PTTL', key)
local state, whose, kept, due = string.match(value, '^(%a+) ?(%S*) ?(%S*) ?(%S*)$')
local mine, wait = state == 'held' and whose == me, 0
delay = delay == '0' and tonumber(kept) or delay + 0
local function keep(state, whose, due)
  local its = string.format('%s %s %.0f%s', state, whose, delay, due or '')
  redis.call('SET', key, its, 'PX', life)
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
  elseif mine and due ~= '' then -- asked again, as the answer was lost
    wait = math.min(ms + 0, math.max(0, math.ceil(due - now)))
  end
  keep('held', me, string.format(' %.0f', now + wait))
elseif what == 'hold' and mine then
  redis.call('PEXPIRE', key, life)
elseif what == 'over' and mine then
  keep('paced', string.format('%.3f', now - ms))
elseif what == 'park' and not (state == 'parked' and left > life + 0) then
  redis.call('SET', key, 'parked', 'PX', life)
end
return {wait}
