-- What the scripts share that erase. KEYS[3] is a copy of the feed that does not tell of some records.

-- Of which record a field of the feed tells, by the name that its tombstone has.
local function named(told)
  local kind = string.sub(told, 9, 9)
  if kind == 'm' then return string.sub(told, 9, 25) end
  local first = kind == 'd' and 18 or kind == 'r' and 10
  return first and 'd' .. (string.match(told, '^[^%z]*%z[^%z]*', first) or '')
end

-- Copies the next entries of the feed behind those that the copy has, and tells how many. What is told of these records is left out but
-- for its stamp, so that each place in the feed stays one. (The server never gives the bytes of a deleted entry back while others of its
-- block are there, so no entry is deleted.)
local SLICE = 500
local function copy(names)
  local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
  local found = redis.call('XRANGE', KEYS[2], last and '(' .. last[1] or '-', '+', 'COUNT', SLICE)
  for _, entry in ipairs(found) do
    local fields = entry[2]
    for place = 2, #fields, 2 do
      if names[named(fields[place])] then fields[place] = string.sub(fields[place], 1, 8) end
    end
    redis.call('XADD', KEYS[3], entry[1], unpack(fields))
  end
  return #found
end

