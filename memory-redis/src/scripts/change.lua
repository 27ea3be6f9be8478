-- Writes rows, all or none: if what is in place of each is still what was read, a member is where it is expected, and no tombstone keeps
-- a guarded one out. Answers 1 when it did, 0 when not.
--
-- KEYS: the version of writers, the feed, the sorted set of the expected member, the tombstones if something is guarded, each row, the
-- history of each, each vector that goes, each sorted set that gets members, each that loses some, what is pruned.
-- ARGV: the expected member, or nothing; how many rows; for each the head that was read, or nothing where there was no row, the new row, or
-- nothing where it stays, its entry of the feed, or nothing, its entry of the history, or nothing, and the createdAt and the name of what is
-- guarded, or nothing; how many vectors go; how many sets get members, and what each gets; how many lose some, and what each loses; what is
-- pruned.
local count, is_unchanged = tonumber(ARGV[2]), true
for place = 1, count do
  local row, new = KEYS[4 + place], ARGV[5 * place - 1]
  local head = redis.call('GETRANGE', row, 0, 8)
  -- An earlier attempt has done it: no two writes share a head. Replicas are waited for behind a write only: this one changes nothing.
  if head ~= '' and head == string.sub(new, 1, 9) then return redis.call('APPEND', row, '') and 1 end
  is_unchanged = is_unchanged and head == ARGV[5 * place - 2]
end
if not is_unchanged then return 0 end
if ARGV[1] ~= '' and not redis.call('ZSCORE', KEYS[3], ARGV[1]) then return 0 end

-- The time in six bytes of a text, from a place on.
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
