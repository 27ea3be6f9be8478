-- The paths that start with a prefix and have no further boundary: a list of how each goes on ('' where it is a space, else
-- its boundary) and the path. Nothing when there are more than can be told in so many steps.
--
-- KEYS: the spaces. ARGV: prefix, steps.
local prefix, found = ARGV[1], {}
local from = '[' .. prefix
for _ = 1, tonumber(ARGV[2]) do
  local member = redis.call('ZRANGEBYLEX', KEYS[1], from, '+', 'LIMIT', 0, 1)[1]
  if not member or string.sub(member, 1, #prefix) ~= prefix then return found end
  -- Behind the space come a zero byte, six bytes of time and sixteen of the id.
  local space = string.sub(member, 1, -24)
  local boundary = string.find(space, '[-/:]', #prefix + 1)
  local sibling = boundary and string.sub(space, 1, boundary - 1) or space
  found[#found + 1] = boundary and string.sub(space, boundary, boundary) or ''
  found[#found + 1] = sibling
  -- No space has a control character, so this is behind all rows of one space, or of all below one boundary.
  from = '[' .. sibling .. (boundary and string.char(string.byte(space, boundary) + 1) or '\1')
end
return false
