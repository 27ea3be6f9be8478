-- Removes each tombstone that is still the one that was read. The hash of an idempotency key stays while another tombstone has it.
-- Returns 1 if it has removed one, and 0 if none.
--
-- KEYS: the writer version, the feed, the tombstones.
-- ARGV: the number of tombstones; for each its name, the tombstone, and the name of the hash of its idempotency key or an empty string; 0
-- sets to extend, and 0 sets to shrink.
local count = tonumber(ARGV[1])
if not (may('HDEL', KEYS[3], '') and may('HSET', KEYS[3], '', '')) then return redis.error_reply(DENIED) end
local forgotten = 0
for place = 1, count do
  local name, tombstone, hash = unpack(ARGV, 3 * place - 1, 3 * place + 1)
  if redis.call('HGET', KEYS[3], name) == tombstone then
    local ids, left = hash ~= '' and redis.call('HGET', KEYS[3], hash) or '', {}
    for first = 1, #ids, 16 do
      local id = string.sub(ids, first, first + 15)
      if id ~= string.sub(name, 2) then left[#left + 1] = id end
    end
    if #left > 0 then
      redis.call('HSET', KEYS[3], hash, table.concat(left))
    elseif ids ~= '' then
      redis.call('HDEL', KEYS[3], hash)
    end
    redis.call('HDEL', KEYS[3], name)
    forgotten = forgotten + 1
  end
end
return forgotten > 0 and 1 or 0
