-- Tells when an event arrived, by the one clock that all processes share. Times grow with the
-- events' numbers, in whatever order their workers ask: two events without a usable time of their
-- own keep the order in which they came.
--
-- KEYS  1 arrivals: sorted set time, ms -> the highest number that arrived then
-- ARGV  1 number of the event  2 most times to keep  3 for how long, ms
-- Returns the time, ms.
--- @include "../../ops/lua/now.lua"
local number = ARGV[1]
local known = redis.call('ZRANGEBYSCORE', KEYS[1], number, '+inf', 'LIMIT', 0, 1)[1]
if known then return tonumber(known) end
-- Redis' clock may have stepped back.
local at = math.max(now, tonumber(redis.call('ZRANGE', KEYS[1], -1, -1)[1] or '0'))
redis.call('ZADD', KEYS[1], number, at)
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -ARGV[2] - 1)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return at
