-- Part of a script that runs alone. KEYS: the bookkeeping, the version of writers, the feed. Its first entry is of no write: a feed is never
-- empty, so whoever watches has a place in it. A program that notes nothing there is refused from here on.
redis.call('XADD', KEYS[3], '*', 'w', '')
redis.call('SET', KEYS[2], '5')
