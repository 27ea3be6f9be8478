-- Writes a row if what is in place is still what was read, and a member is where it is expected. Answers 1 when it did, 0 when not.
--
-- KEYS: the version of writers, the row, the sorted set of the expected member, each sorted set that gets members, each that loses some,
-- what is pruned.
-- ARGV: the head that was read, or nothing where there was no row; the new row, or nothing where it stays; the expected member, or
-- nothing; how many sets get members, and what each gets; how many lose some, and what each loses; what is pruned.
local head = redis.call('GETRANGE', KEYS[2], 0, 8)
-- An earlier attempt has done it: no two writes share a head. Replicas are waited for behind a write only: this one changes nothing.
if head ~= '' and head == string.sub(ARGV[2], 1, 9) then return redis.call('APPEND', KEYS[2], '') and 1 end
if head ~= ARGV[1] then return 0 end
if ARGV[3] ~= '' and not redis.call('ZSCORE', KEYS[3], ARGV[3]) then return 0 end
local last = 3 + tonumber(ARGV[4])
local at = change('ZADD', 4, last, 5)
if ARGV[2] ~= '' then redis.call('SET', KEYS[2], ARGV[2]) end
local going = last + tonumber(ARGV[at])
prune(going + 1, change('ZREM', last + 1, going, at + 1))
return 1
