-- Stores vectors, each only if its row still has the head that was read. Returns 1 for each that was stored, and 0 for each other. It
-- changes no row and adds nothing to the feed.
--
-- KEYS: the writer version, the feed, each row, the vector of each row.
-- ARGV: the number of rows; for each row the head that was read, and the vector; 0 sets to extend, and 0 sets to shrink.
local count, kept = tonumber(ARGV[1]), {}
if not may('SET', KEYS[3 + count], '') then return redis.error_reply(DENIED) end
for place = 1, count do
  local is_unchanged = redis.call('GETRANGE', KEYS[2 + place], 0, 8) == ARGV[2 * place]
  if is_unchanged then redis.call('SET', KEYS[2 + count + place], ARGV[2 * place + 1]) end
  kept[place] = is_unchanged and 1 or 0
end
return kept
