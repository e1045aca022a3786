-- Counts an unavailable reply; enough of them in a row are an outage.
--
-- Fields of the outage hash (times in ms):
--   failures  unavailable replies since the last usable one
--   reason    of the newest of them
--   since     when the outage began
--   pause     time between two tries
--   until     when the next try may be made, at the latest
--   trying    1 while the one try is made that the last pause allowed
-- The last four are absent while there are too few failures for an outage.
--
-- Only a failed try makes the pause longer, by half. Requests that were in flight when the outage
-- began also fail, twenty at once: counted, they would turn a blip of a second into a pause of a
-- minute.
--
-- A suspect is a record that failed in an outage which has ended, and whose change still waits. Its
-- failures begin no other outage: the service may have a fault with that record alone.
--
-- KEYS  1 outage  2 outage:records: crmCode -> failures since the last usable reply
--       3 outage:suspects: sorted set crmCode -> when it failed last
-- ARGV  1 failures that make an outage  2 of which one record may have this many  3 firstPauseMs
--       4 longestPauseMs  5 reason  6 crmCode  7 1 when the failure may concern this record alone
--       8 for how long a suspect is one, ms
-- Returns 1 when the outage begins with this failure, else 0.
local threshold = tonumber(ARGV[1])
--- @include "../../ops/lua/now.lua"
local hasBegun = redis.call('HEXISTS', KEYS[1], 'since') == 1
local suspectSince = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[6]) or 0)
if suspectSince > now - ARGV[8] then
  redis.call('ZADD', KEYS[3], now, ARGV[6])
  redis.call('PEXPIRE', KEYS[3], ARGV[8])
  if ARGV[7] == '1' and not hasBegun then return 0 end
end
local ofRecord = redis.call('HINCRBY', KEYS[2], ARGV[6], 1)
if ARGV[7] == '1' and not hasBegun and ofRecord > tonumber(ARGV[2]) then return 0 end
local failures = redis.call('HINCRBY', KEYS[1], 'failures', 1)
redis.call('HSET', KEYS[1], 'reason', ARGV[5])
if failures < threshold then return 0 end
if not hasBegun then
  redis.call('HSET', KEYS[1], 'since', now, 'pause', ARGV[3], 'until', now + ARGV[3])
  return 1
end
if redis.call('HDEL', KEYS[1], 'trying') == 1 then
  local longer = math.floor(1.5 * redis.call('HGET', KEYS[1], 'pause'))
  local pause = math.min(longer, tonumber(ARGV[4]))
  redis.call('HSET', KEYS[1], 'pause', pause, 'until', now + pause)
end
return 0
