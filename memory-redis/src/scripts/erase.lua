-- Erases records, all or none, and returns 1: each gets a tombstone, and the copy of the feed, if there is one, replaces the feed.
-- Otherwise it changes nothing and returns
--   0 if a record or its tombstone is not the one that was read;
--   2 if the copy is useless, since another erasure has happened since it began, or if there is no copy and the feed now has one of the
--     records, or if the feed has dropped the entry up to which it was copied or searched;
--   3 if more entries were added to the feed, since the copy or since the provider's look at it, than one script handles.
--
-- KEYS: the writer version, the feed, its copy, the tombstones, the idempotency keys, each row, the history of each row, the vector of each
-- row, each sorted set to shrink, the keys for `prune`.
-- ARGV: the number of rows; the number of erasures when the copy began, or an empty string without a copy; the newest feed entry up to
-- which the feed has none of the records (empty if the feed was empty, * if it may have them); for each row the head that was read, its
-- feed entry, its name, the tombstone that was read or an empty string, its new tombstone, its idempotency key or an empty string, and the
-- name under which tombstones list the hash of that key or an empty string; 0 sets to extend; the number of sets to shrink, and the members
-- to remove from each; the arguments of `prune`.
local count, erasures, looked = tonumber(ARGV[1]), ARGV[2], ARGV[3]
for place = 1, count do
  if redis.call('GETRANGE', KEYS[5 + place], 0, 8) ~= ARGV[7 * place - 3] then return 0 end
end

local row = KEYS[6]
local is_allowed = may('HSET', KEYS[4], '', '') and may('HINCRBY', KEYS[4], '', 1) and may('HDEL', KEYS[5], '')
  and may('XADD', KEYS[2], '*', 'w', '') and may('XADD', KEYS[3], '*', 'w', '') and may('PERSIST', KEYS[3])
  and may('RENAME', KEYS[3], KEYS[2]) and may('UNLINK', KEYS[2]) and may('UNLINK', KEYS[6 + count]) and may('DEL', row)
  and may('DEL', KEYS[6 + 2 * count])
-- The reads that follow the first write.
is_allowed = is_allowed and may('XRANGE', KEYS[2], '-', '+') and may('XREVRANGE', KEYS[3], '+', '-')
  and may('HGET', KEYS[4], '') and may('HGET', KEYS[5], '') and may('EXISTS', row) and may('ZRANGEBYLEX', row, '-', '+')
for place = 6 + 3 * count, #KEYS do is_allowed = is_allowed and may('ZREM', KEYS[place], '') end
if not is_allowed then return redis.error_reply(DENIED) end

-- A tombstone that was written in the meantime is kept: it may have a later time, and it names its own actor.
for place = 1, count do
  if (redis.call('HGET', KEYS[4], ARGV[7 * place - 1]) or '') ~= ARGV[7 * place] then return 0 end
end

local names = {}
for place = 1, count do names[ARGV[7 * place - 1]] = true end
local is_copied, last = erasures ~= '', looked ~= '' and looked or nil
local may_tell = looked == '*'
if is_copied then
  if erasures ~= (redis.call('HGET', KEYS[4], 'erasures') or '0') then return 2 end
  last = reached()
end
-- Other clients wait while a script runs, so a script handles only a few entries of the feed.
local MOST = 3 * SLICE
local come = may_tell and {} or behind(last, MOST + 1)
if not come then return 2 end
if #come > MOST then return 3 end
for _, entry in ipairs(is_copied and {} or come) do
  for place = 2, #entry[2], 2 do
    if names[named(entry[2][place])] then return 2 end
  end
end

note(count, 5, 7)
if is_copied then
  repeat until copy(names) < SLICE
  redis.call('PERSIST', KEYS[3])
  -- The server frees the memory after the script has ended.
  redis.call('UNLINK', KEYS[2])
  redis.call('RENAME', KEYS[3], KEYS[2])
end
-- Adds a memory to those whose tombstones have this hash of an idempotency key: 16 bytes for each, so that each can be forgotten alone. The
-- value is empty if a program without expiry has erased a memory with this key; then the key stays blocked for ever.
local function know(hash, id)
  local ids = redis.call('HGET', KEYS[4], hash)
  if ids == '' then return end
  for place = 1, ids and #ids or 0, 16 do
    if string.sub(ids, place, place + 15) == id then return end
  end
  redis.call('HSET', KEYS[4], hash, (ids or '') .. id)
end
-- The count makes a copy useless that another erasure has begun, since that copy may have entries of these records.
if not may_tell then redis.call('HINCRBY', KEYS[4], 'erasures', 1) end
for place = 1, count do
  local name, _, tombstone, key, hash = unpack(ARGV, 7 * place - 1, 7 * place + 3)
  redis.call('HSET', KEYS[4], name, tombstone)
  if hash ~= '' then know(hash, string.sub(name, 2)) end
  if key ~= '' and redis.call('HGET', KEYS[5], key) == string.sub(name, 2) then redis.call('HDEL', KEYS[5], key) end
  redis.call('DEL', KEYS[5 + place])
  redis.call('UNLINK', KEYS[5 + count + place])
end
local rows, sets = 5 + 3 * count, 7 * count + 5
clear(6 + 2 * count, rows)
local going = rows + tonumber(ARGV[sets])
prune(going + 1, change('ZREM', rows + 1, going, sets + 1))
return 1
