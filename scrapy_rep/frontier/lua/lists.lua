-- What waits in a shard, page by page. KEYS: the owner. ARGV: where to go on, how many, pattern.
-- Answers {where to go on (0: that is all), list, how many wait in it, ...}.
local p = string.sub(KEYS[1], 1, -6)
local page = redis.call('SSCAN', p .. 'lists', ARGV[1], 'COUNT', ARGV[2], 'MATCH', ARGV[3])
local answer = {page[1]}
for _, list in ipairs(page[2]) do
  answer[#answer + 1] = list
  answer[#answer + 1] = redis.call('LLEN', p .. 'w:' .. list)
end
return answer
