-- Takes the next slice of a copy of the feed. Answers 0 when it has come to the end, 1 when not, and 2 when the copy is of no use: another
-- erasure has come since it was begun, or the feed has lost the newest entry that it has. A copy of which nobody takes a slice
-- for a minute goes by itself.
--
-- KEYS: the version of writers, the feed, the copy, the tombstones.
-- ARGV: how many erasures there had been when the copy was begun; how many records it is not to tell of; the name of each; 0, as no set
-- gets members, and 0, as none loses some.
if ARGV[1] ~= (redis.call('HGET', KEYS[4], 'erasures') or '0') then return 2 end
local names = {}
for place = 3, tonumber(ARGV[2]) + 2 do names[ARGV[place]] = true end
if not may('EXPIRE', KEYS[3], 60) then return redis.error_reply(DENIED) end
local copied = copy(names)
if not copied then return 2 end
redis.call('EXPIRE', KEYS[3], 60)
return copied < SLICE and 0 or 1
