-- Stores a text of the operator, and replaces the one before it.
--
-- KEYS: the writer version, the feed, the text.
-- ARGV: the number of pieces of the text, and the pieces, since an argument of 64 KiB would count as a long row; 0 sets to extend, and 0
-- sets to shrink.
if not may('SET', KEYS[3], '') then return redis.error_reply(DENIED) end
redis.call('SET', KEYS[3], table.concat(ARGV, '', 2, tonumber(ARGV[1]) + 1))
return 1
