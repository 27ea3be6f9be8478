-- Part of a script that runs alone. KEYS: the bookkeeping, the version of writers. From here on each write takes the vector away that its
-- texts had before, so a program that would leave it is refused. Redis makes a string as it is written, so there is nothing else to prepare.
-- What makes a ledger read-only (L9) stays.
local least = tonumber(redis.call('GET', KEYS[2]) or 0)
redis.call('SET', KEYS[2], string.format('%d', least - least % 1000000000 + 9))
