-- Takes tombstones away, each that is still what was read, and leaves the others. A key by which another tombstone is known stays so.
--
-- KEYS: the version of writers, the feed, the tombstones.
-- ARGV: how many; for each its name, the tombstone, and by which it knows an idempotency key, or nothing; 0, as no set gets members, and 0, as
-- none loses some.
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
return forgotten
