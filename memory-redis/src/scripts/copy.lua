-- Takes the next slice of a copy of the feed. Answers 0 when it has come to the end, 1 when not. A copy of which nobody takes a slice for a
-- minute goes by itself.
--
-- KEYS: the version of writers, the feed, the copy.
-- ARGV: how many records it is not to tell of; the name of each; 0, as no set gets members, and 0, as none loses some.
local names = {}
for place = 2, tonumber(ARGV[1]) + 1 do names[ARGV[place]] = true end
if not may('EXPIRE', KEYS[3], 60) then return redis.error_reply(DENIED) end
local copied = copy(names)
redis.call('EXPIRE', KEYS[3], 60)
return copied < SLICE and 0 or 1
