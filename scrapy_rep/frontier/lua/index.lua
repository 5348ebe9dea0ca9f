-- Which lists of a shard does its index not lead to, or for nothing? KEYS: the owner.
-- ARGV: 1 to put that right, or 0; lists. Answers the list and how many wait in it, for each.
local p, wrong = string.sub(KEYS[1], 1, -6), {}
for i = 2, #ARGV do
  local number = redis.call('LLEN', p .. 'w:' .. ARGV[i])
  if (redis.call('SISMEMBER', p .. 'lists', ARGV[i]) == 1) ~= (number > 0) then
    wrong[#wrong + 1] = ARGV[i]
    wrong[#wrong + 1] = number
    if ARGV[1] == '1' then
      redis.call(number > 0 and 'SADD' or 'SREM', p .. 'lists', ARGV[i])
      redis.call('HINCRBY', p .. 'news', ARGV[i], number) -- of which its owner hears
    end
  end
end
return wrong
