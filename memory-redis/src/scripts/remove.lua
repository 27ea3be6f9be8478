-- Removes documents of a collection, all or none: none, and the answer 0, when one is not what was read any more.
--
-- KEYS: the version of writers, the documents of the collection, the collections, each row, each sorted set.
-- ARGV: collection; how many rows; for each the head that was read; 0, as no set gets members; what each loses.
local count = tonumber(ARGV[2])
for place = 1, count do
  if redis.call('GETRANGE', KEYS[3 + place], 0, 8) ~= ARGV[2 + place] then return 0 end
end
for place = 1, count do redis.call('DEL', KEYS[3 + place]) end
change('ZREM', 4 + count, #KEYS, 4 + count)
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('ZREM', KEYS[3], ARGV[1]) end
return 1
