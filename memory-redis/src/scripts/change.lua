-- Writes rows, all or none. It writes if each row still has the head that was read, the expected member is in its set, and no tombstone
-- keeps out a guarded document. Returns 1 if it has written, else 0.
--
-- KEYS: the writer version, the feed, the sorted set of the expected member, the tombstones (if any document is guarded), each row, the
-- history of each row, each vector to delete, each sorted set to extend, each sorted set to shrink, the keys for `prune`.
-- ARGV: the expected member or an empty string; the number of rows; for each row the head that was read (empty if there was no row), the
-- new row (empty to leave it), its feed entry or an empty string, its history entry or an empty string, and the createdAt and tombstone
-- name of a guarded document or an empty string; the number of vectors; the number of sets to extend, and the members to add to each; the
-- number of sets to shrink, and the members to remove from each; the arguments of `prune`.
local count, is_unchanged = tonumber(ARGV[2]), true
for place = 1, count do
  local row, new = KEYS[4 + place], ARGV[5 * place - 1]
  local head = redis.call('GETRANGE', row, 0, 8)
  -- An earlier attempt has written this, since no two writes share a head. WAIT needs a write, so APPEND makes one that changes nothing.
  if head ~= '' and head == string.sub(new, 1, 9) then return redis.call('APPEND', row, '') and 1 end
  is_unchanged = is_unchanged and head == ARGV[5 * place - 2]
end
if not is_unchanged then return 0 end
if ARGV[1] ~= '' and not redis.call('ZSCORE', KEYS[3], ARGV[1]) then return 0 end

-- Decodes a time in milliseconds from the six bytes that start at `first`.
local function time(text, first)
  local millis = 0
  for place = first, first + 5 do millis = 256 * millis + string.byte(text, place) end
  return millis
end
for place = 1, count do
  local guarded = ARGV[5 * place + 2]
  local tombstone = guarded ~= '' and redis.call('HGET', KEYS[4], string.sub(guarded, 7))
  if tombstone and time(guarded, 1) <= time(tombstone, 2) then return 0 end
end

local gone, sets = tonumber(ARGV[5 * count + 3]), 5 * count + 4
local is_allowed = may('SET', KEYS[5], '') and may_keep(KEYS[5 + count], ARGV[6]) and may('XADD', KEYS[2], '*', 'w', '')
is_allowed = is_allowed and (gone == 0 or may('DEL', KEYS[5 + 2 * count]))
if not is_allowed then return redis.error_reply(DENIED) end
local last = 2 * count + 4 + gone
local going = last + tonumber(ARGV[sets])
local at = change('ZADD', last + 1, going, sets + 1)
note(count, 5, 5)
for place = 1, count do keep(KEYS[4 + count + place], ARGV[5 * place + 1]) end
clear(2 * count + 5, last)
for place = 1, count do
  local new = ARGV[5 * place - 1]
  if new ~= '' then redis.call('SET', KEYS[4 + place], new) end
end
local pruned = going + tonumber(ARGV[at])
prune(pruned + 1, change('ZREM', going + 1, pruned, at + 1))
return 1
