-- Replaces a memory if its row is still the one that was read. Answers 1 when it did, 0 when the row has changed, and 2 when the
-- words of the memory are indexed and were not given.
--
-- KEYS: the row, the pending and the running memories, the memories whose words are indexed, the words that go, the words
-- that come.
-- ARGV: the head that was read; the row; createdAt; id; whether it is pending; whether it is running; nothing where the words
-- stay, else how many go, or -1 when they were not worked out.
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then return 0 end
local created_at, id, going = ARGV[3], ARGV[4], tonumber(ARGV[7])
local indexed = going and redis.call('ZSCORE', KEYS[4], id)
if indexed and going < 0 then return 2 end
redis.call('SET', KEYS[1], ARGV[2])
for status = 1, 2 do
  if ARGV[4 + status] == '1' then
    redis.call('ZADD', KEYS[1 + status], created_at, id)
  else
    redis.call('ZREM', KEYS[1 + status], id)
  end
end
if indexed then
  for word = 5, 4 + going do redis.call('ZREM', KEYS[word], id) end
  for word = 5 + going, #KEYS do redis.call('ZADD', KEYS[word], created_at, id) end
end
return 1
