-- What each script begins with. KEYS[1] is the version of the programs that may write; one that changes the layout raises it first. KEYS[2]
-- is the feed. The last of ARGV is how many entries that keeps.
local least = tonumber(redis.call('GET', KEYS[1]) or 0)
if least >= 1000000000 then return redis.error_reply('FENCED the ledger is read-only') end
if least > 9 then return redis.error_reply('NEWER the ledger was migrated') end

-- Adds members to sorted sets, from a key to another, or removes some. ARGV has from a place on, for each set, how many arguments the
-- command takes, and these. Gives the place behind them. A script adds first: what the server has no memory or no permission for is
-- refused before anything is removed, and an entry without a row is none.
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

-- Takes members out of sorted sets where a node is gone, or has nothing more behind a boundary. KEYS has from a place on, for each member,
-- the node and the set; ARGV the boundary, or nothing where all boundaries share a member, and the member.
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

-- Whether the user may run a command. Asked before the feed is written, since a script is not rolled back. (Servers before 7.0 can't tell.)
local function may(...)
  return not redis.acl_check_cmd or redis.acl_check_cmd(...)
end
local DENIED = 'NOPERM this user may not write rows'

-- Tells the feed of so many records, before what it tells of is written: what refuses an entry refuses the write. ARGV has what is told of
-- them from a place on, with a distance; nothing of some. Up to 8 share an entry of the stream, since most of the cost is per entry. With
-- the last the oldest of the feed go.
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

-- Removes the keys from one to another, of which few are there.
local function clear(first, last)
  for from = first, last, 4000 do redis.call('DEL', unpack(KEYS, from, math.min(from + 3999, last))) end
end

-- Whether the user may add an entry to a history. Asked before the feed is written, too.
local function may_keep(history, entry)
  return entry == '' or may('RPUSH', history, '')
end

-- Adds an entry to a history, before what it tells of is written. One that is longer is cut into pieces of 64 KiB, of which all but the
-- first begin with a zero byte, so that who reads some elements knows how large they are at most.
local PIECE = 65535
local function keep(history, entry)
  if entry == '' then return end
  redis.call('RPUSH', history, string.sub(entry, 1, PIECE))
  for first = PIECE + 1, #entry, PIECE do
    redis.call('RPUSH', history, '\0' .. string.sub(entry, first, first + PIECE - 1))
  end
end

