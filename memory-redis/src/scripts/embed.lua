-- Keeps vectors beside rows, each by itself: where its row is still what was read. Answers with 1 for each that it keeps, and with 0 for each
-- other. The rows stay as they are, and the feed is told of nothing.
--
-- KEYS: the version of writers, the feed, each row, the vector of each.
-- ARGV: how many; for each the head that was read, and the vector; 0, as no set gets members, and 0, as none loses some.
local count, kept = tonumber(ARGV[1]), {}
if not may('SET', KEYS[3 + count], '') then return redis.error_reply(DENIED) end
for place = 1, count do
  local is_unchanged = redis.call('GETRANGE', KEYS[2 + place], 0, 8) == ARGV[2 * place]
  if is_unchanged then redis.call('SET', KEYS[2 + count + place], ARGV[2 * place + 1]) end
  kept[place] = is_unchanged and 1 or 0
end
return kept
