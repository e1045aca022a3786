-- A probe got no reply that says anything about the denial: it does not count, and the next one
-- follows soon.
--
-- KEYS  1 denial
-- ARGV  1 after how long, ms
-- Returns 0.
--- @include "../../ops/lua/now.lua"
local flat = redis.call('HGETALL', KEYS[1])
if not flat[1] then return 0 end
local denial = cjson.decode(flat[2])
denial.probes = math.max(0, denial.probes - 1)
denial.next = math.min(denial.next, now + ARGV[1])
redis.call('HSET', KEYS[1], flat[1], cjson.encode(denial))
return 0
