-- Writes memories, all or none. Answers with those that are there already, by id or by idempotency key, as a list of: place
-- in the input, id, row. It writes nothing when there are any.
--
-- KEYS: the idempotency keys, then each row, then each sorted set.
-- ARGV: how many rows; prefix of the keys of rows; whether replicas are waited for; for each row its id, its idempotency key
-- or nothing, and the row; for each sorted set how many arguments it takes, and these.
local count, prefix, waits = tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1'
local known = {}
for place = 1, count do
  local at = 3 * place + 1
  local owner, row = ARGV[at], redis.call('GET', KEYS[1 + place])
  if not row and ARGV[at + 1] ~= '' then
    owner = redis.call('HGET', KEYS[1], ARGV[at + 1])
    row = owner and redis.call('GET', prefix .. owner)
  end
  if owner and (row or owner ~= ARGV[at]) then
    -- Only what is written is waited for: to write the row again lets the caller wait for its replicas again.
    if waits and row then redis.call('SET', prefix .. owner, row) end
    known[#known + 1] = place
    known[#known + 1] = owner
    known[#known + 1] = row
  end
end
if #known > 0 then return known end

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
return known
