-- Copies the next slice of the feed. Returns 0 at the end of the feed, 1 if more is left, and 2 if the copy is useless: another erasure has
-- happened since the copy began, or the feed has dropped the newest entry that the copy has. A copy expires if no slice is added to it for
-- a minute.
--
-- KEYS: the writer version, the feed, the copy, the tombstones.
-- ARGV: the number of erasures when the copy began; the number of records to leave out; the tombstone name of each; 0 sets to extend, and 0
-- sets to shrink.
if ARGV[1] ~= (redis.call('HGET', KEYS[4], 'erasures') or '0') then return 2 end
local names = {}
for place = 3, tonumber(ARGV[2]) + 2 do names[ARGV[place]] = true end
if not may('EXPIRE', KEYS[3], 60) then return redis.error_reply(DENIED) end
local copied = copy(names)
if not copied then return 2 end
redis.call('EXPIRE', KEYS[3], 60)
return copied < SLICE and 0 or 1
