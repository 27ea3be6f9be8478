-- Erases records, all or none. None, and the answer is 0, when one, or its tombstone, is not what was read any more; 2, when the copy is of
-- no use, as another erasure has come since it was begun, or when there is none and the feed has come to tell of one; 3, when more has come
-- to the feed behind the copy, or behind what was looked at, than one script takes. Otherwise a tombstone takes the place of each, and the
-- copy that of the feed.
--
-- KEYS: the version of writers, the feed, its copy, the tombstones, the idempotency keys, each row, the history of each, the vector
-- of each, each sorted set that loses members, what is pruned.
-- ARGV: how many rows; how many erasures there had been when the copy was begun, or nothing where there is none; up to which entry the
-- feed tells of none of them, or nothing where it had none, or * where it may tell of them; for each row the head that was read, its entry of
-- the feed, its name, the tombstone that was read, or nothing, the one that it gets, its idempotency key, or nothing, and by which a tombstone
-- knows that, or nothing; 0, as no set gets members; how many sets there are, and what each loses; what is pruned.
local count, erasures, looked = tonumber(ARGV[1]), ARGV[2], ARGV[3]
for place = 1, count do
  if redis.call('GETRANGE', KEYS[5 + place], 0, 8) ~= ARGV[7 * place - 3] then return 0 end
end

local row = KEYS[6]
local is_allowed = may('HSET', KEYS[4], '', '') and may('HINCRBY', KEYS[4], '', 1) and may('HDEL', KEYS[5], '')
  and may('XADD', KEYS[2], '*', 'w', '') and may('XADD', KEYS[3], '*', 'w', '') and may('PERSIST', KEYS[3])
  and may('RENAME', KEYS[3], KEYS[2]) and may('UNLINK', KEYS[2]) and may('UNLINK', KEYS[6 + count]) and may('DEL', row)
  and may('DEL', KEYS[6 + 2 * count])
-- What is read behind the first write.
is_allowed = is_allowed and may('XRANGE', KEYS[2], '-', '+') and may('XREVRANGE', KEYS[3], '+', '-')
  and may('HGET', KEYS[4], '') and may('HGET', KEYS[5], '') and may('EXISTS', row) and may('ZRANGEBYLEX', row, '-', '+')
for place = 6 + 3 * count, #KEYS do is_allowed = is_allowed and may('ZREM', KEYS[place], '') end
if not is_allowed then return redis.error_reply(DENIED) end

-- What has come meanwhile may be of a later time, and say by whom something was erased.
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
-- Other clients wait meanwhile, so it is little that a script takes of the feed.
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
  -- The server gives its memory back behind this script.
  redis.call('UNLINK', KEYS[2])
  redis.call('RENAME', KEYS[3], KEYS[2])
end
-- Lets an idempotency key be known by the memories whose tombstones have it, of which one may be forgotten: 16 bytes for each, or none where
-- an erasure from before there was expiry has made it known for ever.
local function know(hash, id)
  local ids = redis.call('HGET', KEYS[4], hash)
  if ids == '' then return end
  for place = 1, ids and #ids or 0, 16 do
    if string.sub(ids, place, place + 15) == id then return end
  end
  redis.call('HSET', KEYS[4], hash, (ids or '') .. id)
end
-- A copy that another erasure has begun may tell of what goes here.
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
