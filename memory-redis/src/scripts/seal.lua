-- Moves the older steps of paths that are full into chunks, which take a third of the memory. Answers with 1 when there is more
-- to be moved, else 0.
--
-- KEYS: of each path its newest steps, and the directory of its chunks: the first step of each.
-- ARGV: from how many steps on a path is full, at least and for each of its chunks; how many of the newest it keeps; how many a
-- chunk has at most; how many are moved at most.
local full, share, kept = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local size, rest = tonumber(ARGV[4]), tonumber(ARGV[5])

-- Writes steps as chunks of about the same size.
local function write(directory, steps)
  local count = #steps / WIDTH
  local width = WIDTH * math.ceil(count / math.ceil(count / size))
  for first = 1, #steps, width do
    local owner = string.sub(steps, first, first + WIDTH - 1)
    redis.call('SET', directory .. '\0' .. owner, string.sub(steps, first, first + width - 1))
    redis.call('ZADD', directory, '0', owner)
  end
end

-- A chunk with some steps more.
local function merged(chunk, steps, first, last)
  local parts, done = {}, 0
  for place = first, last do
    local rank = rank_in_chunk(chunk, steps[place], false, done)
    parts[#parts + 1] = string.sub(chunk, done * WIDTH + 1, rank * WIDTH)
    parts[#parts + 1] = steps[place]
    done = rank
  end
  return table.concat(parts) .. string.sub(chunk, done * WIDTH + 1)
end

for place = 1, #KEYS, 2 do
  local set, directory = KEYS[place], KEYS[place + 1]
  local count = redis.call('ZCARD', set)
  local enough = math.max(full, share * redis.call('ZCARD', directory))
  local moved = count >= enough and math.min(count - kept, rest) or 0
  -- What comes in the order of time fills its chunks.
  moved = moved - moved % size
  local steps = moved > 0 and redis.call('ZRANGE', set, 0, moved - 1) or {}
  local first = 1
  while first <= moved do
    -- Those that belong into the same chunk.
    local owner = redis.call('ZREVRANGEBYLEX', directory, '[' .. steps[first], '-', 'LIMIT', 0, 1)[1]
    local following = redis.call('ZRANGEBYLEX', directory, '(' .. steps[first], '+', 'LIMIT', 0, 1)[1]
    local last = following and math.min(moved, redis.call('ZLEXCOUNT', set, '-', '(' .. following)) or moved
    local chunk = owner and redis.call('GET', directory .. '\0' .. owner) or ''
    -- Mostly, what comes later belongs behind all that is there.
    local is_behind = chunk == '' or is_less(string.sub(chunk, -WIDTH), steps[first])
    if is_behind and #chunk / WIDTH + last - first >= size then
      write(directory, table.concat(steps, '', first, last))
    else
      write(directory, merged(chunk, steps, first, last))
    end
    first = last + 1
  end
  if moved > 0 then redis.call('ZREMRANGEBYRANK', set, 0, moved - 1) end
  rest = rest - moved
  if count - moved >= enough then return 1 end
end
return 0
