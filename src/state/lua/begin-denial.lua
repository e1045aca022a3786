-- Notes that the service denies access. Only one cause is known at a time: that of the newest
-- reply. A probe that is denied again changes neither the start nor the time of the next probe.
--
-- KEYS  1 denial: hash cause -> JSON { since, address, next, probes }, times in ms
-- ARGV  1 cause  2 address that the service named  3 pauseMs until the first probe
-- Returns 1 when a denial of this cause begins, 0 when it was known.
--- @include "../../ops/lua/now.lua"
local flat = redis.call('HGETALL', KEYS[1])
local known = flat[1] == ARGV[1]
local denial = flat[2] and cjson.decode(flat[2]) or { probes = 0, next = now + ARGV[3] }
if not known then denial.since = now end
denial.address = ARGV[2]
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(denial))
return known and 0 or 1
