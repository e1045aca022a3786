-- The service has given a usable reply: forgets the failures before it.
--
-- KEYS  as in outage-failed.lua
-- ARGV  1 for how long a suspect is one, ms
-- Returns nil when no outage ends; else the records to be tried again now: those that failed in the
-- outage, except suspects. From here on they are suspects, until their changes have ended.
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
