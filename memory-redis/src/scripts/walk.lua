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
      for at = #found, 2, -2 do
        times[#times + 1] = tonumber(found[at])
        ids[#ids + 1] = found[at - 1]
      end
    else
      local last = math.min(high, low + wanted)
      local found = redis.call('ZRANGE', set, low, last - 1, 'WITHSCORES')
      low = last
      for at = 1, #found, 2 do
        times[#times + 1] = tonumber(found[at + 1])
        ids[#ids + 1] = found[at]
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
  sources[place] = { fetch = fetch, times = times, ids = ids, at = 1, is_last = #ids < wanted }
end

-- The source with the nearest record; nil when all have come to their end.
local function nearest()
  local best
  for _, source in ipairs(sources) do
    if source.at > #source.ids and not source.is_last then
      source.times, source.ids = source.fetch(wanted)
      source.at, source.is_last = 1, #source.ids < wanted
    end
    local time = source.times[source.at]
    if time then
      local is_nearer = not best
      if best then
        local best_time = best.times[best.at]
        if time ~= best_time then
          is_nearer = (time > best_time) == newest
        else
          local id, best_id = source.ids[source.at], best.ids[best.at]
          is_nearer = id ~= best_id and is_less(best_id, id) == newest
        end
      end
      if is_nearer then best = source end
    end
  end
  return best
end

local times, ids = {}, {}
while #ids < count do
  local source = nearest()
  if not source then break end
  local time, id = source.times[source.at], source.ids[source.at]
  source.at = source.at + 1
  if id ~= ids[#ids] then
    times[#times + 1] = time
    ids[#ids + 1] = id
  end
end

local answer = { #ids == count and 1 or 0 }
local bytes = 0
for first = 1, #ids, CHUNK do
  local last = math.min(first + CHUNK - 1, #ids)
  local rows = {}
  if prefix ~= '' then
    local keys = {}
    for at = first, last do keys[#keys + 1] = prefix .. ids[at] end
    rows = redis.call('MGET', unpack(keys))
  end
  for at = first, last do
    local row = rows[at - first + 1]
    answer[#answer + 1] = ids[at]
    answer[#answer + 1] = times[at]
    answer[#answer + 1] = row or false
    bytes = bytes + (row and #row or 0)
  end
  if bytes > MAX_BYTES and last < #ids then
    answer[1] = 1
    break
  end
end
return answer
