-- Writes rows, all or none: if what is in place of each is still what was read, and a member is where it is expected. Answers 1 when it
-- did, 0 when not.
--
-- KEYS: the version of writers, the feed, the sorted set of the expected member, each row, the history of each, each sorted set that gets
-- members, each that loses some, what is pruned.
-- ARGV: the expected member, or nothing; how many rows; for each the head that was read, or nothing where there was no row, the new row, or
-- nothing where it stays, its entry of the feed, or nothing, and its entry of the history, or nothing; how many sets get members, and what
-- each gets; how many lose some, and what each loses; what is pruned.
local count, is_unchanged = tonumber(ARGV[2]), true
for place = 1, count do
  local row, new = KEYS[3 + place], ARGV[4 * place]
  local head = redis.call('GETRANGE', row, 0, 8)
  -- An earlier attempt has done it: no two writes share a head. Replicas are waited for behind a write only: this one changes nothing.
  if head ~= '' and head == string.sub(new, 1, 9) then return redis.call('APPEND', row, '') and 1 end
  is_unchanged = is_unchanged and head == ARGV[4 * place - 1]
end
if not is_unchanged then return 0 end
if ARGV[1] ~= '' and not redis.call('ZSCORE', KEYS[3], ARGV[1]) then return 0 end
local is_allowed = may('SET', KEYS[4], '') and may_keep(KEYS[4 + count], ARGV[6])
if not is_allowed then return redis.error_reply(DENIED) end
local sets, last = 4 * count + 3, 2 * count + 3
local going = last + tonumber(ARGV[sets])
local at = change('ZADD', last + 1, going, sets + 1)
note(count, 5, 4)
for place = 1, count do keep(KEYS[3 + count + place], ARGV[4 * place + 2]) end
for place = 1, count do
  local new = ARGV[4 * place]
  if new ~= '' then redis.call('SET', KEYS[3 + place], new) end
end
local pruned = going + tonumber(ARGV[at])
prune(pruned + 1, change('ZREM', going + 1, pruned, at + 1))
return 1
