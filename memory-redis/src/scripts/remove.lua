-- Removes documents of a collection, all or none: none, and the answer 0, when one is not what was read any more.
--
-- KEYS: the documents of the collection, the collections, each row, each word.
-- ARGV: collection; how many rows; for each its id and the head that was read; for each word how many ids, and these.
local count = tonumber(ARGV[2])
for place = 1, count do
  local head = ARGV[2 + 2 * place]
  if redis.call('GETRANGE', KEYS[2 + place], 0, #head - 1) ~= head then return 0 end
end
for place = 1, count do
  redis.call('DEL', KEYS[2 + place])
  redis.call('ZREM', KEYS[1], ARGV[1 + 2 * place])
end
local at = 3 + 2 * count
for word = count + 3, #KEYS do
  local last = at + tonumber(ARGV[at])
  for first = at + 1, last, 4000 do
    redis.call('ZREM', KEYS[word], unpack(ARGV, first, math.min(first + 3999, last)))
  end
  at = last + 1
end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('ZREM', KEYS[2], ARGV[1]) end
return 1
