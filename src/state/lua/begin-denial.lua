-- Notes that the service denies access. Only one cause is known at a time: that of the newest
-- reply. A probe that is denied again changes neither the start nor the time of the next probe.
--
-- A denial that begins soon after another one has ended is the same denial, which goes on: a probe
-- may be served where changes are not. So its probes are as rare as the last ones were.
--
-- KEYS  1 denial: hash cause -> JSON { since, address, next, probes }, times in ms
--       2 denial:ended
-- ARGV  1 cause  2 address that the service named  3 pauseMs until the first probe  4 maxPauseMs
-- Returns 1 when a denial of this cause begins, 0 when it was known.
--- @include "../../ops/lua/now.lua"
--- @include "probe-pause.lua"
local flat = redis.call('HGETALL', KEYS[1])
local known = flat[1] == ARGV[1]
local denial = flat[2] and cjson.decode(flat[2])
if not denial then
  local probes = tonumber(redis.call('GET', KEYS[2]) or 0)
  denial = { probes = probes, next = now + probePause(ARGV[3], ARGV[4], probes) }
end
if not known then denial.since = now end
denial.address = ARGV[2]
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(denial))
return known and 0 or 1
