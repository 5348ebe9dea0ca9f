-- The turns of one host, for all that ask it. KEYS: its turn: 'held WHO DELAY' while a request is
-- under way, 'paced WHEN DELAY' after its answer, or 'parked'; all times in ms.
-- ARGV: what (book, hold, over, park), me, the delay (0: not known, so that of others), for how
-- long the key lives.
-- Answers {0}: yes; {ms, why}: not before so many ms have passed, or the key changes.
local what, me, delay, life = ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4]
local value, left = redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1])
local state, whose, kept = string.match(value, '^(%a+) ?(%S*) ?(%S*)$')
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local mine = state == 'held' and whose == me
if delay == 0 then
  delay = tonumber(kept) or 0
end
local function keep(state, whose)
  redis.call('SET', KEYS[1], string.format('%s %s %.0f', state, whose, delay), 'PX', life)
end
if what == 'book' then
  if state == 'parked' or (state == 'held' and not mine) then
    if left < 0 then -- none of ours has written that
      redis.call('PEXPIRE', KEYS[1], life)
      left = life + 0
    end
    return {left, state}
  elseif value ~= '' and not mine then
    local last = tonumber(whose) or now
    if state ~= 'paced' or last > now then -- or the clock was set back: since when is not known
      last = now
      keep('paced', string.format('%.3f', now))
    end
    if last + delay > now then
      return {math.ceil(last + delay - now), 'paced'}
    end
  end
  keep('held', me)
elseif what == 'hold' and mine then
  redis.call('PEXPIRE', KEYS[1], life)
elseif what == 'over' and mine then
  keep('paced', string.format('%.3f', now))
elseif what == 'park' and not (state == 'parked' and left > life + 0) then
  redis.call('SET', KEYS[1], 'parked', 'PX', life)
end
return {0}
