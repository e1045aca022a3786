-- Lets one process probe whether the denial is over. Each further probe must wait longer.
--
-- KEYS  1 denial
-- ARGV  1 pauseMs  2 maxPauseMs  3 '1': probe although the pause is not over
-- Returns 1 when the caller may probe now, else 0.
--- @include "../../ops/lua/now.lua"
local flat = redis.call('HGETALL', KEYS[1])
if not flat[1] then return 0 end
local denial = cjson.decode(flat[2])
if denial.next > now and ARGV[3] ~= '1' then return 0 end
denial.probes = denial.probes + 1
denial.next = now + math.min(ARGV[1] * 2 ^ math.min(denial.probes, 10), tonumber(ARGV[2]))
redis.call('HSET', KEYS[1], flat[1], cjson.encode(denial))
return 1
