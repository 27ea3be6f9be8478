-- Removes documents of a collection, all or none: none, and the answer 0, when one is not what was read any more.
--
-- KEYS: the version of writers, the feed, the documents of the collection, the collections, each row, the history of each, the vector of
-- each, each sorted set, what is pruned.
-- ARGV: collection; how many rows; for each the head that was read; for each its entry of the feed, and its entry of the history, or
-- nothing; 0, as no set gets members; how many sets there are, and what each loses; what is pruned.
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
