-- The next records of several sorted sets in the order (createdAt, id), each once. Answers with 1 when there can be more, else 0,
-- and then for each record its id, its createdAt, and its row, if rows are wanted and it is there.
--
-- KEYS: the sorted sets.
-- ARGV: prefix of the keys of rows, or nothing; 1 for newest first; how many records; createdAt and id of the record to go on
-- behind, or nothing; createdAt that they come after and before, or nothing; for each set its kind, and what its steps begin
-- with: `ids`, whose scores are createdAt, `steps`, which end with createdAt and id, or `chunks`, the directory of sets of such.
local prefix, newest, count = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3])
local place_time, place_id, after, before = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local EARLIEST, CHUNK = -8640000000000, 8
-- A call ends early when its rows have passed this.
local MAX_BYTES = 4 * 1024 * 1024

-- How many members of a set come before the place, with itself or without.
local function rank_of_place(set, with_itself)
  local low = redis.call('ZCOUNT', set, '-inf', '(' .. place_time)
  local high = low + redis.call('ZCOUNT', set, place_time, place_time)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local id = redis.call('ZRANGE', set, middle, middle)[1]
    if is_less(id, place_id) or (with_itself and id == place_id) then low = middle + 1 else high = middle end
  end
  return low
end

-- Each source gives the times and ids of its next records, none at its end.
local function by_ids(set)
  local low = after ~= '' and redis.call('ZCOUNT', set, '-inf', after) or 0
  local high = before ~= '' and redis.call('ZCOUNT', set, '-inf', '(' .. before) or redis.call('ZCARD', set)
  if place_time ~= '' and newest then high = math.min(high, rank_of_place(set, false)) end
  if place_time ~= '' and not newest then low = math.max(low, rank_of_place(set, true)) end
  return function(wanted)
    local times, ids = {}, {}
    if low >= high then return times, ids end
    if newest then
      local first = math.max(low, high - wanted)
      local found = redis.call('ZRANGE', set, first, high - 1, 'WITHSCORES')
      high = first
      local count = #found / 2
      for at = 1, count do
        times[at], ids[at] = tonumber(found[2 * (count - at) + 2]), found[2 * (count - at) + 1]
      end
    else
      local last = math.min(high, low + wanted)
      local found = redis.call('ZRANGE', set, low, last - 1, 'WITHSCORES')
      low = last
      for at = 1, #found / 2 do
        times[at], ids[at] = tonumber(found[2 * at]), found[2 * at - 1]
      end
    end
    return times, ids
  end
end

local function time_bytes(time) return struct.pack('>I6', tonumber(time) - EARLIEST) end

-- Of the step at a place in a text.
local function time_and_id(text, place)
  local time, id = struct.unpack('>I6c16', text, place)
  return time + EARLIEST, id
end

-- Between which steps those are that are wanted.
local function bounds(head)
  local low = after ~= '' and '[' .. head .. time_bytes(after + 1) or '[' .. head
  local high = '+'
  if before ~= '' then
    high = '(' .. head .. time_bytes(before)
  elseif head ~= '' then
    -- The head ends with a zero byte.
    high = '(' .. string.sub(head, 1, -2) .. '\1'
  end
  if place_time ~= '' then
    local place = '(' .. head .. time_bytes(place_time) .. place_id
    if newest then high = place else low = place end
  end
  return low, high
end

local function by_steps(set, head)
  local low, high = bounds(head)
  return function(wanted)
    local found
    if newest then
      found = redis.call('ZREVRANGEBYLEX', set, high, low, 'LIMIT', 0, wanted)
    else
      found = redis.call('ZRANGEBYLEX', set, low, high, 'LIMIT', 0, wanted)
    end
    local times, ids = {}, {}
    for at, step in ipairs(found) do
      times[at], ids[at] = time_and_id(step, #step - WIDTH + 1)
    end
    if newest then high = '(' .. (found[#found] or '') else low = '(' .. (found[#found] or '') end
    return times, ids
  end
end

-- Each chunk ends before the next in the directory begins.
local function by_chunks(directory)
  local function last_to(edge) return redis.call('ZREVRANGEBYLEX', directory, edge, '-', 'LIMIT', 0, 1)[1] end
  local function first_from(edge) return redis.call('ZRANGEBYLEX', directory, edge, '+', 'LIMIT', 0, 1)[1] end
  local low, high = bounds('')
  local owner = last_to(newest and high or low) or not newest and first_from('-')
  local chunk, from, to, is_start = nil, 0, 0, true
  return function(wanted)
    local times, ids = {}, {}
    while owner and #ids < wanted do
      if not chunk then
        chunk = redis.call('GET', directory .. '\0' .. owner) or ''
        from = low == '[' and 0 or rank_in_chunk(chunk, string.sub(low, 2), string.sub(low, 1, 1) == '(', 0)
        to = high == '+' and #chunk / WIDTH or rank_in_chunk(chunk, string.sub(high, 2), false, 0)
      end
      local count = math.max(0, math.min(to - from, wanted - #ids))
      for _ = 1, count do
        local place = newest and to - 1 or from
        times[#times + 1], ids[#ids + 1] = time_and_id(chunk, place * WIDTH + 1)
        if newest then to = place else from = place + 1 end
      end
      if from >= to then
        -- A later one with nothing is beyond the last time that is wanted.
        local goes_on = count > 0 or is_start
        owner = goes_on and (newest and last_to('(' .. owner) or not newest and first_from('(' .. owner))
        chunk, is_start = nil, false
      end
    end
    return times, ids
  end
end

local lists = 0
for place = 1, #KEYS do
  if ARGV[6 + 2 * place] ~= 'chunks' then lists = lists + 1 end
end
local wanted = lists <= 2 and count or math.max(8, math.ceil(2 * count / lists))
local sources = {}
for place, set in ipairs(KEYS) do
  local kind, head = ARGV[6 + 2 * place], ARGV[7 + 2 * place]
  local fetch = kind == 'ids' and by_ids(set) or kind == 'steps' and by_steps(set, head) or by_chunks(set)
  local times, ids = fetch(wanted)
  if #ids > 0 then
    sources[#sources + 1] = { fetch = fetch, times = times, ids = ids, at = 1, is_last = #ids < wanted }
  end
end

local function is_nearer(source, other)
  local time, other_time = source.times[source.at], other.times[other.at]
  if time ~= other_time then return (time > other_time) == newest end
  local id, other_id = source.ids[source.at], other.ids[other.at]
  return id ~= other_id and is_less(other_id, id) == newest
end

-- The source with the nearest record, and the next nearest; nil when there are no more.
local function nearest()
  local first, second
  for _, source in ipairs(sources) do
    if source.at > #source.ids and not source.is_last then
      source.times, source.ids = source.fetch(wanted)
      source.at, source.is_last = 1, #source.ids < wanted
    end
    if source.ids[source.at] then
      if not first or is_nearer(source, first) then
        first, second = source, first
      elseif not second or is_nearer(source, second) then
        second = source
      end
    end
  end
  return first, second
end

local times, ids, length = {}, {}, 0
while length < count do
  local source, other = nearest()
  if not source then break end
  -- Mostly the next record is of the same source. Which of two with the same time is nearer, their ids tell.
  local other_time, at = other and other.times[other.at], source.at
  local time, id = source.times[at], source.ids[at]
  repeat
    if id ~= ids[length] then
      length = length + 1
      times[length], ids[length] = time, id
    end
    at = at + 1
    time, id = source.times[at], source.ids[at]
  until length == count or not id or other and (time == other_time or (time < other_time) == newest)
  source.at = at
end

local answer, bytes = { length == count and 1 or 0 }, 0
for first = 1, length, CHUNK do
  local last = math.min(first + CHUNK - 1, length)
  local rows = {}
  if prefix ~= '' then
    local keys = {}
    for at = first, last do keys[at - first + 1] = prefix .. ids[at] end
    rows = redis.call('MGET', unpack(keys))
  end
  for at = first, last do
    local row = rows[at - first + 1]
    answer[3 * at - 1], answer[3 * at], answer[3 * at + 1] = ids[at], times[at], row or false
    bytes = bytes + (row and #row or 0)
  end
  if bytes > MAX_BYTES and last < length then
    answer[1] = 1
    break
  end
end
return answer
