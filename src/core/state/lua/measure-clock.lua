-- Tells Redis' time, and the latest time that any process was told before. If that one is later,
-- Redis' clock was set back.
--
-- KEYS  1 clock: hash with the field latest, ms
-- ARGV  1 how far back, ms, counts as set back  2 time of the caller's machine, ms
-- Returns { Redis' time, latest }, both in ms.
--- @include "../../../base/lua/now.lua"
local latest = math.max(tonumber(redis.call('HGET', KEYS[1], 'latest')) or 0, now)
-- By now Redis agrees with the machine, or is ahead of it: the later time was the wrong one.
if ARGV[2] - now < tonumber(ARGV[1]) then latest = now end
redis.call('HSET', KEYS[1], 'latest', latest)
return { now, latest }
