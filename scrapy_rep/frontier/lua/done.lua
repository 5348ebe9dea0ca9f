-- What the owner is done with. KEYS: the owner of each shard. ARGV: for each its term, and how many
-- ids come; ids. Answers for each 1 if the term is over. A server whose memory is full takes it: what
-- comes first needs none.
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
