-- Part of a script that runs alone. KEYS: the bookkeeping, the version of writers. From here on each write keeps the list of what expires, so
-- a program that would drop the time of a row is refused. Redis makes a sorted set with its first member, so there is nothing else to prepare.
-- What makes a ledger read-only (L9) stays.
local least = tonumber(redis.call('GET', KEYS[2]) or 0)
redis.call('SET', KEYS[2], string.format('%d', least - least % 1000000000 + 8))
