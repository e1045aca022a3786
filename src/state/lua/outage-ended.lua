-- The service has given a usable reply: forgets the failures before it.
--
-- KEYS  as in outage-failed.lua
-- ARGV  1 for how long a suspect is one, ms
-- Returns the records to be tried again now, when an outage ends with it: those that failed in it,
-- but for suspects. Now they are suspects themselves, until their change has ended. nil when none
-- ends.
--- @include "../../ops/lua/now.lua"
local isOutage = redis.call('HEXISTS', KEYS[1], 'until') == 1
local records = isOutage and redis.call('HKEYS', KEYS[2]) or {}
redis.call('DEL', KEYS[1], KEYS[2])
if not isOutage then return false end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[1])
local again = {}
for _, record in ipairs(records) do
  if redis.call('ZADD', KEYS[3], now, record) == 1 then again[#again + 1] = record end
end
redis.call('PEXPIRE', KEYS[3], ARGV[1])
return again
