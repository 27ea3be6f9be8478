-- Part of a script that runs alone. KEYS: the bookkeeping, the version of writers. From here on no write lists the words of what it
-- stores, so a program that does is refused; a backfill removes those that are there.
redis.call('SET', KEYS[2], '4')
