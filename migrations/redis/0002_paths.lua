-- Part of a script that runs alone. KEYS: the bookkeeping, the version of writers, the collections. From here on each write places its
-- documents, so a program that does not is refused; a backfill places those that are there.
redis.call('SET', KEYS[2], '3')
if redis.call('EXISTS', KEYS[3]) == 1 then state = ' begun' end
