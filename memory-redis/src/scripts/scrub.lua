-- Functions for the scripts that erase. KEYS[3] is a copy of the feed without the records that are erased.

-- Returns the tombstone name of the record that a field of the feed is about.
local function named(told)
  local kind = string.sub(told, 9, 9)
  if kind == 'm' then return string.sub(told, 9, 25) end
  local first = kind == 'd' and 18 or kind == 'r' and 10
  return first and 'd' .. (string.match(told, '^[^%z]*%z[^%z]*', first) or '')
end

-- Returns the entries of the feed after `last`, or from its beginning, at most `most` of them. Returns nil if the feed has dropped `last`,
-- since the entries dropped with it can't be checked.
local function behind(last, most)
  local found = redis.call('XRANGE', KEYS[2], last or '-', '+', 'COUNT', last and most + 1 or most)
  if not last then return found end
  if not found[1] or found[1][1] ~= last then return nil end
  table.remove(found, 1)
  return found
end

-- Returns the number of the newest entry of the copy.
local function reached()
  local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
  return last and last[1]
end

-- Copies the next entries of the feed to the copy, and returns how many; nil if it can't continue. Of the erased records only the stamps
-- are copied, so that every position in the feed stays valid. (Entries are not deleted instead, since the server does not free the bytes of
-- a deleted entry while its block has others.)
local SLICE = 500
local function copy(names)
  local found = behind(reached(), SLICE)
  if not found then return nil end
  for _, entry in ipairs(found) do
    local fields = entry[2]
    for place = 2, #fields, 2 do
      if names[named(fields[place])] then fields[place] = string.sub(fields[place], 1, 8) end
    end
    redis.call('XADD', KEYS[3], entry[1], unpack(fields))
  end
  return #found
end
