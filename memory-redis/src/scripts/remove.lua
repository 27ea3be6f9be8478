-- Removes documents of a collection, all or none: none, and the answer 0, when one is not what was read any more.
--
-- KEYS: the version of writers, the documents of the collection, the collections, each row, each sorted set, what is pruned.
-- ARGV: collection; how many rows; for each the head that was read; 0, as no set gets members; how many sets there are, and what each
-- loses; what is pruned.
local count = tonumber(ARGV[2])
for place = 1, count do
  if redis.call('GETRANGE', KEYS[3 + place], 0, 8) ~= ARGV[2 + place] then return 0 end
end
for place = 1, count do redis.call('DEL', KEYS[3 + place]) end
local going = 3 + count + tonumber(ARGV[4 + count])
prune(going + 1, change('ZREM', 4 + count, going, 5 + count))
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('ZREM', KEYS[3], ARGV[1]) end
return 1
