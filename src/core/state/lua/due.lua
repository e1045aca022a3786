-- Tells how many records may be sent now.
--
-- KEYS  1 line:live  2 line:bulk  3 line:later  4 bulk:pause
-- ARGV  1 prefix of the staged keys
-- Returns how many of each lane; none of the lane bulk while it is paused.
--- @include "../../../base/lua/now.lua"
local lines, later, staged = { live = KEYS[1], bulk = KEYS[2] }, KEYS[3], ARGV[1]
--- @include "./move-due.lua"
local live, bulk = redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2])
if bulk > 0 and redis.call('EXISTS', KEYS[4]) == 1 then bulk = 0 end
return { live, bulk }
