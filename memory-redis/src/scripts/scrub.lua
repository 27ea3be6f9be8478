-- What the scripts share that erase. KEYS[3] is a copy of the feed that does not tell of some records.

-- Of which record a field of the feed tells, by the name that its tombstone has.
local function named(told)
  local kind = string.sub(told, 9, 9)
  if kind == 'm' then return string.sub(told, 9, 25) end
  local first = kind == 'd' and 18 or kind == 'r' and 10
  return first and 'd' .. (string.match(told, '^[^%z]*%z[^%z]*', first) or '')
end

-- The entries of the feed behind one of them, or from the beginning, so many at most. Nothing where the feed has lost that one, since what
-- was lost with it nobody can tell.
local function behind(last, most)
  local found = redis.call('XRANGE', KEYS[2], last or '-', '+', 'COUNT', last and most + 1 or most)
  if not last then return found end
  if not found[1] or found[1][1] ~= last then return nil end
  table.remove(found, 1)
  return found
end

-- The number of the newest entry that the copy has.
local function reached()
  local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
  return last and last[1]
end

-- Copies the next entries of the feed behind those that the copy has, and tells how many; nothing where it can't go on. What is told of
-- these records is left out but for its stamp, so that each place in the feed stays one. (The server never gives the bytes of a deleted
-- entry back while others of its block are there, so no entry is deleted.)
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
