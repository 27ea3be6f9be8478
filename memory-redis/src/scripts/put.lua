-- Writes a document if what is in place is still what was read. Answers 1 when it did, else 0.
--
-- KEYS: the row, the documents of the collection, the collections, the words that go, the words that come.
-- ARGV: the head that was read, or nothing; the row; createdAt; id; collection; how many words go.
local head, created_at, id, going = ARGV[1], ARGV[3], ARGV[4], tonumber(ARGV[6])
-- As long as a head is; nothing where there is no row.
if redis.call('GETRANGE', KEYS[1], 0, 8) ~= head then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('ZADD', KEYS[2], created_at, id)
redis.call('ZADD', KEYS[3], 0, ARGV[5])
for word = 4, 3 + going do redis.call('ZREM', KEYS[word], id) end
for word = 4 + going, #KEYS do redis.call('ZADD', KEYS[word], created_at, id) end
return 1
