-- Writes memories, all or none. Answers with those whose id or idempotency key is taken, as a list of: id, id of the memory
-- that has it. It writes none when there are any.
--
-- KEYS: the version of writers, the idempotency keys, each row, each sorted set.
-- ARGV: how many rows; for each its id, its idempotency key or nothing, and the row; the changes of the sets.
local count, taken = tonumber(ARGV[1]), {}
for place = 1, count do
  local row, id, key = KEYS[2 + place], ARGV[3 * place - 1], ARGV[3 * place]
  local is_there = redis.call('EXISTS', row) == 1
  local owner = is_there and id or key ~= '' and redis.call('HGET', KEYS[2], key)
  -- A memory whose own row is gone, by eviction or by hand, is written: a restore brings it back.
  if owner and (is_there or owner ~= id) then
    -- Replicas are waited for behind a write only: this one changes nothing.
    if is_there then redis.call('APPEND', row, '') else redis.call('HSET', KEYS[2], key, owner) end
    taken[#taken + 1] = id
    taken[#taken + 1] = owner
  end
end
if #taken > 0 then return taken end

change('ZADD', count + 3, 3 * count + 2)
for place = 1, count do
  local id, key = ARGV[3 * place - 1], ARGV[3 * place]
  redis.call('SET', KEYS[2 + place], ARGV[3 * place + 1])
  if key ~= '' then redis.call('HSET', KEYS[2], key, id) end
end
return taken
