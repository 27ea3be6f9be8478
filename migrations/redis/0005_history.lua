-- Part of a script that runs alone. KEYS: the bookkeeping, the version of writers. From here on each write keeps what it replaces, so a
-- program that does not is refused. Redis makes a list with its first entry, so there is nothing else to prepare.
redis.call('SET', KEYS[2], '6')
