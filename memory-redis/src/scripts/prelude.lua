-- What each script begins with. KEYS[1] is the version of the programs that may write; one that changes the layout raises it first.
if tonumber(redis.call('GET', KEYS[1]) or 0) > 2 then return redis.error_reply('NEWER the ledger was migrated') end

-- Adds members to the sorted sets from a key on, or removes some. ARGV has from a place on, for each set, how many arguments ZADD
-- takes, and these; how many ZREM takes, and these. A script adds first: what the server has no memory or no permission for is
-- refused before anything is removed, and an entry without a row is none.
local function change(command, key, at)
  for place = key, #KEYS do
    for _, kind in ipairs({ 'ZADD', 'ZREM' }) do
      local last = at + tonumber(ARGV[at])
      for first = at + 1, kind == command and last or at, 4000 do
        redis.call(kind, KEYS[place], unpack(ARGV, first, math.min(first + 3999, last)))
      end
      at = last + 1
    end
  end
end

