-- Keeps a text of an operator in the place of the one that was there.
--
-- KEYS: the version of writers, the feed, the text.
-- ARGV: how many pieces the text comes in, and these, since an argument of 64 KiB would be taken for a long row; 0, as no set gets members,
-- and 0, as none loses some.
if not may('SET', KEYS[3], '') then return redis.error_reply(DENIED) end
redis.call('SET', KEYS[3], table.concat(ARGV, '', 2, tonumber(ARGV[1]) + 1))
return 1
