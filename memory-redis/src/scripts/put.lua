-- Writes a document if what is in place is still what was read. Answers 1 when it did, else 0.
--
-- KEYS: the row, the documents of the collection, the collections, the words that go, the words that come.
-- ARGV: the head that was read, or nothing; the head of the new row; the row; createdAt; id; collection; how many words go.
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[2] - 1) ~= ARGV[1] then
  -- The very same call may come twice.
  return redis.call('GETRANGE', KEYS[1], 0, #ARGV[2] - 1) == ARGV[2] and 1 or 0
end
local created_at, id, going = ARGV[4], ARGV[5], tonumber(ARGV[7])
redis.call('SET', KEYS[1], ARGV[3])
redis.call('ZADD', KEYS[2], created_at, id)
redis.call('ZADD', KEYS[3], 0, ARGV[6])
for word = 4, 3 + going do redis.call('ZREM', KEYS[word], id) end
for word = 4 + going, #KEYS do redis.call('ZADD', KEYS[word], created_at, id) end
return 1
