-- Writes memories, all or none. Answers with those whose id or idempotency key is taken or erased, as a list of: id, id of the memory
-- that has it, or nothing where a tombstone does. It writes none when there are any.
--
-- KEYS: the version of writers, the feed, the idempotency keys, the tombstones, each row, each vector that goes, each sorted set.
-- ARGV: how many rows; for each its id, its idempotency key or nothing, the row, its entry of the feed, and by which a tombstone knows the
-- key or nothing; how many vectors go; how many sets; what each gets.
local count, taken = tonumber(ARGV[1]), {}
-- How many rows are there: mostly none, which one call tells.
local there = 0
for first = 5, count + 4, 4000 do
  there = there + redis.call('EXISTS', unpack(KEYS, first, math.min(first + 3999, count + 4)))
end
-- Which of them tombstones keep out: mostly nothing was ever erased, which one call tells, too.
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
        -- Replicas are waited for behind a write only: this one changes nothing.
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
  -- A memory whose own row is gone, by eviction or by hand, is written: a restore brings it back.
  elseif owner and (is_there or owner ~= id) then
    -- This changes nothing either.
    if is_there then redis.call('APPEND', row, '') else redis.call('HSET', KEYS[3], key, owner) end
    taken[#taken + 1] = id
    taken[#taken + 1] = owner
  end
end
if #taken > 0 then return taken end
-- Nothing is to expire that is not there, so whoever may not write the feed lists nothing.
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
