-- Writes memories, all or none. Answers with those whose id or idempotency key is taken, as a list of: place in the input, id of
-- the memory that has it. It writes none when there are any.
--
-- KEYS: the idempotency keys, then each row, then each sorted set.
-- ARGV: how many rows; prefix of the keys of rows; whether replicas are waited for; for each row its id, its idempotency key
-- or nothing, and the row; for each sorted set how many arguments it takes, and these.
local count, prefix, waits = tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1'
local taken = {}
for place = 1, count do
  local at = 3 * place + 1
  local id, key = ARGV[at], ARGV[at + 1]
  local owner = redis.call('EXISTS', KEYS[1 + place]) == 1 and id
  owner = owner or key ~= '' and redis.call('HGET', KEYS[1], key)
  -- Its own row is gone, by eviction or by hand: a restore brings it back.
  if owner == id and redis.call('EXISTS', KEYS[1 + place]) == 0 then owner = false end
  if owner then
    -- Only what is written is waited for: to write the row again lets the caller wait for its replicas again.
    local row = waits and redis.call('GET', prefix .. owner)
    if row then redis.call('SET', prefix .. owner, row) end
    taken[#taken + 1] = place
    taken[#taken + 1] = owner
  end
end
if #taken > 0 then return taken end

for place = 1, count do
  local at = 3 * place + 1
  redis.call('SET', KEYS[1 + place], ARGV[at + 2])
  if ARGV[at + 1] ~= '' then redis.call('HSET', KEYS[1], ARGV[at + 1], ARGV[at]) end
end
local at = 3 * count + 4
for set = count + 2, #KEYS do
  local last = at + tonumber(ARGV[at])
  for first = at + 1, last, 4000 do
    redis.call('ZADD', KEYS[set], unpack(ARGV, first, math.min(first + 3999, last)))
  end
  at = last + 1
end
return taken
