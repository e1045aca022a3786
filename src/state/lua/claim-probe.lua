-- Lets one process probe whether the denial is over. Each further probe must wait longer.
--
-- KEYS  1 denial
-- ARGV  1 pauseMs  2 maxPauseMs  3 '1': probe although the pause is not over
-- Returns 1 when the caller may probe now, else 0.
--- @include "../../ops/lua/now.lua"
--- @include "probe-pause.lua"
local flat = redis.call('HGETALL', KEYS[1])
if not flat[1] then return 0 end
local denial = cjson.decode(flat[2])
if denial.next > now and ARGV[3] ~= '1' then return 0 end
denial.probes = denial.probes + 1
denial.next = now + probePause(ARGV[1], ARGV[2], denial.probes)
redis.call('HSET', KEYS[1], flat[1], cjson.encode(denial))
return 1
