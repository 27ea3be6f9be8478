-- Part of a script that runs alone. KEYS: the bookkeeping, the version of writers. From here on records are erased, so a program that would
-- bring them back is refused. Redis makes a hash with its first field, so there is nothing else to prepare.
-- What makes a ledger read-only (L9) stays.
local least = tonumber(redis.call('GET', KEYS[2]) or 0)
redis.call('SET', KEYS[2], string.format('%d', least - least % 1000000000 + 7))
