-- Takes the words of a memory into the index, if its row is still the one that was read.
--
-- KEYS: the row, the memories whose words are not indexed, those whose are, the words.
-- ARGV: the head that was read, createdAt, id.
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then return 0 end
if redis.call('ZREM', KEYS[2], ARGV[3]) == 0 then return 0 end
for set = 3, #KEYS do redis.call('ZADD', KEYS[set], ARGV[2], ARGV[3]) end
return 1
