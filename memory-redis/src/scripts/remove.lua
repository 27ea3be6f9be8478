-- Removes documents of a collection, all or none: none, and the answer 0, when one is not what was read any more.
--
-- KEYS: the version of writers, the feed, the documents of the collection, the collections, each row, each sorted set, what is pruned.
-- ARGV: collection; how many rows; for each the head that was read; for each its entry of the feed; 0, as no set gets members; how many
-- sets there are, and what each loses; what is pruned.
local count = tonumber(ARGV[2])
for place = 1, count do
  if redis.call('GETRANGE', KEYS[4 + place], 0, 8) ~= ARGV[2 + place] then return 0 end
end
if not may('DEL', KEYS[5]) then return redis.error_reply(DENIED) end
for place = 1, count do note(ARGV[2 + count + place], place == count) end
for place = 1, count do redis.call('DEL', KEYS[4 + place]) end
local going = 4 + count + tonumber(ARGV[4 + 2 * count])
prune(going + 1, change('ZREM', 5 + count, going, 5 + 2 * count))
if redis.call('EXISTS', KEYS[3]) == 0 then redis.call('ZREM', KEYS[4], ARGV[1]) end
return 1
