-- Gives a record a place in the order of service; of two ranks it keeps the one served first.
--
-- KEYS  as in count-changes.lua
-- ARGV  1 crmCode  2 rank; '' keeps the one it has
--       3 delayMs: for so long it stays out of the order; 0 or less: it is in it at once
-- Returns 0.
local crmCode, delayMs = ARGV[1], tonumber(ARGV[3])
--- @include "../../ops/lua/now.lua"
--- @include "postponed.lua"
local known = better(endWait(crmCode), redis.call('ZSCORE', KEYS[1], crmCode))
local rank = better(known, ARGV[2] ~= '' and ARGV[2])
if not rank then return 0 end
if delayMs > 0 then
  redis.call('ZREM', KEYS[1], crmCode)
  redis.call('ZADD', KEYS[2], now + delayMs, crmCode)
  redis.call('HSET', KEYS[3], crmCode, rank)
else
  redis.call('ZADD', KEYS[1], rank, crmCode)
end
return 0
