-- Replaces a memory if its row is still the one that was read. Answers 1 when it did, 0 when the row has changed, and 2 when the
-- words of the memory are indexed and were not given.
--
-- KEYS: the row, the pending and the running memories, the memories whose words are indexed, the words that go, the words
-- that come.
-- ARGV: the head that was read; the head of the new row; the row; createdAt; id; whether it is pending; whether it is
-- running; nothing where the words stay, else how many go, or -1 when they were not worked out.
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
  -- The very same call may come twice.
  return redis.call('GETRANGE', KEYS[1], 0, #ARGV[2] - 1) == ARGV[2] and 1 or 0
end
local created_at, id, going = ARGV[4], ARGV[5], tonumber(ARGV[8])
local indexed = going and redis.call('ZSCORE', KEYS[4], id)
if indexed and going < 0 then return 2 end
redis.call('SET', KEYS[1], ARGV[3])
for status = 1, 2 do
  if ARGV[5 + status] == '1' then
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
