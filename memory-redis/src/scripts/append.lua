-- Writes memories, all or none. If the id or the idempotency key of any is taken or erased, writes nothing and returns a flat list with two
-- elements for each of these: its id, and the id of the memory that has it, or an empty string if a tombstone has it.
--
-- KEYS: the writer version, the feed, the idempotency keys, the tombstones, each row, each vector to delete, each sorted set to extend.
-- ARGV: the number of rows; for each row its id, its idempotency key or an empty string, the row, its feed entry, and the name under which
-- tombstones list the hash of its key or an empty string; the number of vectors; the number of sets; the members to add to each.
local count, taken = tonumber(ARGV[1]), {}
-- The number of rows that exist. It is usually 0, so one call replaces a call for each row.
local there = 0
for first = 5, count + 4, 4000 do
  there = there + redis.call('EXISTS', unpack(KEYS, first, math.min(first + 3999, count + 4)))
end
-- Marks the rows that tombstones keep out. Usually nothing was ever erased, and one EXISTS shows that.
local erased = {}
if redis.call('EXISTS', KEYS[4]) == 1 then
  local names, places = {}, {}
  for place = 1, count do
    local id, hash = ARGV[5 * place - 3], ARGV[5 * place + 1]
    names[#names + 1], places[#places + 1] = 'm' .. id, place
    if hash ~= '' then names[#names + 1], places[#places + 1] = hash, place end
  end
  for first = 1, #names, 4000 do
    local found = redis.call('HMGET', KEYS[4], unpack(names, first, math.min(first + 3999, #names)))
    for at = 1, #found do
      if found[at] then
        erased[places[first + at - 1]] = true
        -- WAIT waits only for writes of this connection, so the script makes a write that changes nothing.
        redis.call('HSET', KEYS[4], names[first + at - 1], found[at])
      end
    end
  end
end
for place = 1, count do
  local row, id, key = KEYS[4 + place], ARGV[5 * place - 3], ARGV[5 * place - 2]
  local is_there = there > 0 and redis.call('EXISTS', row) == 1
  local owner = is_there and id or key ~= '' and redis.call('HGET', KEYS[3], key)
  if erased[place] then
    taken[#taken + 1] = id
    taken[#taken + 1] = ''
  -- If the row of a memory is gone, by eviction or by hand, but its key still maps to it, the memory is written: a restore repairs it.
  elseif owner and (is_there or owner ~= id) then
    -- A write that changes nothing, for WAIT.
    if is_there then redis.call('APPEND', row, '') else redis.call('HSET', KEYS[3], key, owner) end
    taken[#taken + 1] = id
    taken[#taken + 1] = owner
  end
end
if #taken > 0 then return taken end
-- Checked before the first write: if the feed is denied, no set may list a row that does not exist.
local gone = tonumber(ARGV[5 * count + 2])
local is_allowed = may('MSET', KEYS[5], '') and may('XADD', KEYS[2], '*', 'w', '')
is_allowed = is_allowed and (gone == 0 or may('DEL', KEYS[5 + count]))
if not is_allowed then return redis.error_reply(DENIED) end

local last = count + 4 + gone
change('ZADD', last + 1, #KEYS, 5 * count + 4)
note(count, 5, 5)
clear(count + 5, last)
local rows = {}
for place = 1, count do
  local id, key, row = unpack(ARGV, 5 * place - 3, 5 * place - 1)
  rows[2 * place - 1], rows[2 * place] = KEYS[4 + place], row
  if key ~= '' then redis.call('HSET', KEYS[3], key, id) end
end
for first = 1, 2 * count, 4000 do redis.call('MSET', unpack(rows, first, math.min(first + 3999, 2 * count))) end
return taken
