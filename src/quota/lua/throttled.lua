-- Stops all processes after a 429. A stop is only ever extended.
--
-- KEYS  1 pace  2 in-flight
-- ARGV  1 permitId  2 wait that the reply asks for, ms ('': none usable)
--       3 '1': our own count did not foresee this 429, so pacing becomes steady, unless the service
--       may have counted a request late that got no reply
--       4 steadyMs  5 depth of the steady bucket  6 for how long pacing is steady, ms
--       7 first wait, ms, and 8 longest, ms, when the reply asks for none: it doubles with each
--       failure, and half of it is random  9 random number, 0 to 1
--       10 so many stops in a row are as long as the replies ask; later ones in this row are no
--       shorter than if the reply asked for none
--       11 for how long after its end a request without a reply may be counted, ms
-- Returns { stopped until, pacing became steady 0 | 1, the stop is new 0 | 1 }.
--- @include "../../ops/lua/now.lua"
--- @include "pace.lua"
redis.call('ZREM', KEYS[2], ARGV[1])
local stopped = (pace.stop or 0) > now
local failures = pace.failures or 0
if not stopped then failures = redis.call('HINCRBY', KEYS[1], 'failures', 1) end
local wait = tonumber(ARGV[2])
if not wait or failures > tonumber(ARGV[10]) then
  local longest = math.min(tonumber(ARGV[8]), ARGV[7] * 2 ^ math.min(failures - 1, 20))
  wait = math.max(wait or 0, longest * (0.5 + ARGV[9] / 2))
end
local stop = math.max(pace.stop or 0, math.ceil(now + wait))
redis.call('HSET', KEYS[1], 'stop', stop)
local switched = 0
local countsLate = now - (pace.unanswered or 0) < tonumber(ARGV[11])
if ARGV[3] == '1' and not countsLate then
  if (pace.steady or 0) <= now then switched = 1 end
  redis.call('HSET', KEYS[1], 'steady', now + ARGV[6], 'tat', now + ARGV[5] * ARGV[4])
  redis.call('HDEL', KEYS[1], 'proven', 'level', 'at', 'trip', 'eased')
end
return { string.format('%d', stop), switched, stopped and 0 or 1 }
