-- Part of a script that runs alone. KEYS: the bookkeeping; then, for each key that writes of version 1 touch, itself and the name that its
-- value gets. A string takes its place, so that each of these writes is an error. What has moved, the backfill goes over; on a fresh
-- namespace nothing is left to it.
for place = 2, #KEYS, 2 do
  local kind = redis.call('TYPE', KEYS[place]).ok
  if kind ~= 'none' and kind ~= 'string' then redis.call('RENAME', KEYS[place], KEYS[place + 1]) end
  redis.call('SET', KEYS[place], 'version 2')
  if redis.call('EXISTS', KEYS[place + 1]) == 1 then state = ' begun' end
end
