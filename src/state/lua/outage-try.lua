-- Asks whether a request may be tried. During an outage one process may try, once per pause.
--
-- The next try waits until this one has ended. A service that does not respond may keep all
-- requests in its queue; when it works again, it counts all of them at once.
--
-- KEYS  1 outage (fields: see outage-failed.lua)
-- ARGV  1 how long a try may take, ms
-- Returns 0 when there is no outage, -1 when the caller makes the one try, else how long to wait,
-- ms.
local untilMs = tonumber(redis.call('HGET', KEYS[1], 'until') or '0')
if untilMs == 0 then return 0 end
--- @include "../../ops/lua/now.lua"
if untilMs > now then return untilMs - now end
local pause = tonumber(redis.call('HGET', KEYS[1], 'pause'))
redis.call('HSET', KEYS[1], 'until', now + math.max(pause, tonumber(ARGV[1])), 'trying', 1)
return -1
