-- The next records of several sorted sets in the order (createdAt, id), each once. Answers with 1 when there can be more, else 0,
-- and then for each record its id, its createdAt, and its row, if rows are wanted and it is there.
--
-- KEYS: the sorted sets.
-- ARGV: prefix of the keys of rows, or nothing; 1 for newest first; how many records; createdAt and id of the record to go on
-- behind, or nothing; createdAt that they come after and before, or nothing; for each set nothing if its scores are createdAt
-- and its members ids, else what the members begin with that are followed by createdAt and id.
local prefix, newest, count = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3])
local place_time, place_id, after, before = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local EARLIEST, CHUNK = -8640000000000, 8
-- A call ends early when its rows have passed this.
local MAX_BYTES = 4 * 1024 * 1024

-- By bytes: Lua's own comparison goes by the locale.
local function is_less(left, right)
  for at = 1, math.min(#left, #right) do
    local a, b = string.byte(left, at), string.byte(right, at)
    if a ~= b then return a < b end
  end
  return #left < #right
end

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
local function by_score(set)
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

local function time_bytes(time)
  local rest, bytes = tonumber(time) - EARLIEST, {}
  for at = 6, 1, -1 do
    bytes[at] = string.char(rest % 256)
    rest = math.floor(rest / 256)
  end
  return table.concat(bytes)
end

local function by_head(set, head)
  local low = after ~= '' and '[' .. head .. time_bytes(after + 1) or '[' .. head
  -- The head ends with a zero byte.
  local high = before ~= '' and '(' .. head .. time_bytes(before) or '(' .. string.sub(head, 1, -2) .. '\1'
  if place_time ~= '' and newest then high = '(' .. head .. time_bytes(place_time) .. place_id end
  if place_time ~= '' and not newest then low = '(' .. head .. time_bytes(place_time) .. place_id end
  return function(wanted)
    local found
    if newest then
      found = redis.call('ZREVRANGEBYLEX', set, high, low, 'LIMIT', 0, wanted)
    else
      found = redis.call('ZRANGEBYLEX', set, low, high, 'LIMIT', 0, wanted)
    end
    local times, ids = {}, {}
    for at, member in ipairs(found) do
      local a, b, c, d, e, f = string.byte(member, -22, -17)
      times[at] = ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f + EARLIEST
      ids[at] = string.sub(member, -16)
    end
    if newest then high = '(' .. (found[#found] or '') else low = '(' .. (found[#found] or '') end
    return times, ids
  end
end

local wanted = #KEYS <= 2 and count or math.max(8, math.ceil(2 * count / #KEYS))
local sources = {}
for place, set in ipairs(KEYS) do
  local head = ARGV[7 + place]
  local fetch = head == '' and by_score(set) or by_head(set, head)
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
