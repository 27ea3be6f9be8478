-- Writes memories, all or none. Answers with those whose id or idempotency key is taken, as a list of: id, id of the memory
-- that has it. It writes none when there are any.
--
-- KEYS: the version of writers, the feed, the idempotency keys, each row, each sorted set.
-- ARGV: how many rows; for each its id, its idempotency key or nothing, the row, and its entry of the feed; how many sets; what each gets.
local count, taken = tonumber(ARGV[1]), {}
-- How many rows are there: mostly none, which one call tells.
local there = 0
for first = 4, count + 3, 4000 do
  there = there + redis.call('EXISTS', unpack(KEYS, first, math.min(first + 3999, count + 3)))
end
for place = 1, count do
  local row, id, key = KEYS[3 + place], ARGV[4 * place - 2], ARGV[4 * place - 1]
  local is_there = there > 0 and redis.call('EXISTS', row) == 1
  local owner = is_there and id or key ~= '' and redis.call('HGET', KEYS[3], key)
  -- A memory whose own row is gone, by eviction or by hand, is written: a restore brings it back.
  if owner and (is_there or owner ~= id) then
    -- Replicas are waited for behind a write only: this one changes nothing.
    if is_there then redis.call('APPEND', row, '') else redis.call('HSET', KEYS[3], key, owner) end
    taken[#taken + 1] = id
    taken[#taken + 1] = owner
  end
end
if #taken > 0 then return taken end
if not may('MSET', KEYS[4], '') then return redis.error_reply(DENIED) end

change('ZADD', count + 4, #KEYS, 4 * count + 3)
note(count, 5, 4)
local rows = {}
for place = 1, count do
  local id, key, row = unpack(ARGV, 4 * place - 2, 4 * place)
  rows[2 * place - 1], rows[2 * place] = KEYS[3 + place], row
  if key ~= '' then redis.call('HSET', KEYS[3], key, id) end
end
for first = 1, 2 * count, 4000 do redis.call('MSET', unpack(rows, first, math.min(first + 3999, 2 * count))) end
return taken
