-- The start of each script. KEYS[1] is the lowest version of a program that may write; a program that changes the layout raises it first.
-- KEYS[2] is the feed. The last of ARGV is the number of entries that the feed keeps.
local least = tonumber(redis.call('GET', KEYS[1]) or 0)
if least >= 1000000000 then return redis.error_reply('FENCED the ledger is read-only') end
if least > 9 then return redis.error_reply('NEWER the ledger was migrated') end

-- Adds members to the sorted sets KEYS[key] to KEYS[last_key], or removes some. ARGV has for each set, from `at` on, the number of the
-- command's arguments and then the arguments. Returns the place after them. A script adds before it removes: if the server lacks memory or
-- refuses the command, nothing has been removed yet, and readers ignore an entry without a row.
local function change(command, key, last_key, at)
  for place = key, last_key do
    local last = at + tonumber(ARGV[at])
    for first = at + 1, last, 4000 do
      redis.call(command, KEYS[place], unpack(ARGV, first, math.min(first + 3999, last)))
    end
    at = last + 1
  end
  return at
end

-- Removes members from sorted sets if their node is gone, or has no entries after a boundary. KEYS has for each member, from `key` on, the
-- node and the set; ARGV, from `at` on, the boundary (empty if one member stands for all boundaries) and the member.
local function prune(key, at)
  for place = key, #KEYS, 2 do
    local node, boundary, is_left = KEYS[place], ARGV[at], false
    if boundary == '' then
      is_left = redis.call('EXISTS', node) == 1
    else
      local beyond = string.char(string.byte(boundary) + 1)
      is_left = #redis.call('ZRANGEBYLEX', node, '[' .. boundary, '(' .. beyond, 'LIMIT', 0, 1) > 0
    end
    if not is_left then redis.call('ZREM', KEYS[place + 1], ARGV[at + 1]) end
    at = at + 2
  end
end

-- Returns whether the user may run a command. Scripts ask before they write the feed, since they are not rolled back. (Servers before 7.0
-- can't tell.)
local function may(...)
  return not redis.acl_check_cmd or redis.acl_check_cmd(...)
end
local DENIED = 'NOPERM this user may not write rows'

-- Adds `count` feed entries. They come before the writes that they announce: if the server refuses an entry, nothing is written. ARGV has
-- the entries from `at` on, `distance` apart, some of them empty. Up to 8 share an entry of the stream, since most of the cost is per
-- entry. The last XADD also drops the oldest entries of the stream.
local SHARE = 8
local function note(count, at, distance)
  for first = 1, count, SHARE do
    local last, entry = math.min(first + SHARE - 1, count), {}
    for place = first, last do
      local told = ARGV[at + distance * (place - 1)]
      if told ~= '' then
        entry[#entry + 1] = 'w'
        entry[#entry + 1] = told
      end
    end
    if #entry > 0 and last == count then
      redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[#ARGV], '*', unpack(entry))
    elseif #entry > 0 then
      redis.call('XADD', KEYS[2], '*', unpack(entry))
    end
  end
end

-- Deletes the keys KEYS[first] to KEYS[last], most of which do not exist.
local function clear(first, last)
  for from = first, last, 4000 do redis.call('DEL', unpack(KEYS, from, math.min(from + 3999, last))) end
end

-- Returns whether the user may add an entry to a history. Scripts ask this, too, before they write the feed.
local function may_keep(history, entry)
  return entry == '' or may('RPUSH', history, '')
end

-- Adds an entry to a history, before the write that it records. A longer entry is split into pieces of 64 KiB, and all but the first begin
-- with a zero byte. So a reader knows the largest size of a number of elements before it reads them.
local PIECE = 65535
local function keep(history, entry)
  if entry == '' then return end
  redis.call('RPUSH', history, string.sub(entry, 1, PIECE))
  for first = PIECE + 1, #entry, PIECE do
    redis.call('RPUSH', history, '\0' .. string.sub(entry, first, first + PIECE - 1))
  end
end

