-- The one try of an outage was not made, or its reply says nothing: the next try may be made after
-- the pause.
--
-- KEYS  1 outage (fields: see outage-failed.lua)
-- Returns 0.
--- @include "../../ops/lua/now.lua"
if redis.call('HDEL', KEYS[1], 'trying') == 1 then
  redis.call('HSET', KEYS[1], 'until', now + redis.call('HGET', KEYS[1], 'pause'))
end
return 0
