-- Removes documents of a collection, all or none: returns 1 if it has, and 0 if a document is not the one that was read.
--
-- KEYS: the writer version, the feed, the documents of the collection, the collections, each row, the history of each row, the vector of
-- each row, each sorted set to shrink, the keys for `prune`.
-- ARGV: the collection; the number of rows; for each the head that was read; for each its feed entry, and its history entry or an empty
-- string; 0 sets to extend; the number of sets to shrink, and the members to remove from each; the arguments of `prune`.
local count = tonumber(ARGV[2])
for place = 1, count do
  if redis.call('GETRANGE', KEYS[4 + place], 0, 8) ~= ARGV[2 + place] then return 0 end
end
local is_allowed = may('DEL', KEYS[5]) and may('DEL', KEYS[5 + 2 * count]) and may_keep(KEYS[5 + count], ARGV[4 + count])
if not is_allowed then return redis.error_reply(DENIED) end
note(count, 3 + count, 2)
for place = 1, count do keep(KEYS[4 + count + place], ARGV[2 + count + 2 * place]) end
for place = 1, count do redis.call('DEL', KEYS[4 + place]) end
local rows, sets = 4 + 3 * count, 4 + 3 * count
clear(5 + 2 * count, rows)
local going = rows + tonumber(ARGV[sets])
prune(going + 1, change('ZREM', rows + 1, going, sets + 1))
if redis.call('EXISTS', KEYS[3]) == 0 then redis.call('ZREM', KEYS[4], ARGV[1]) end
return 1
