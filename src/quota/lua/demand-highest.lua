-- Finds the live record that is served next, or the one that is served last, or one by chance.
-- Before that, puts records whose retry is due back into the order.
--
-- KEYS  as in count-changes.lua
-- ARGV  1 next, last or any
-- Returns { crmCode, rank }, or {} when none waits.
--- @include "../../ops/lua/now.lua"
--- @include "postponed.lua"
-- At most 100 at once: the next calls move the others.
for _, crmCode in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
  local rank = better(endWait(crmCode), redis.call('ZSCORE', KEYS[1], crmCode))
  redis.call('ZADD', KEYS[1], rank or now, crmCode)
end
if ARGV[1] == 'any' then return redis.call('ZRANDMEMBER', KEYS[1], 1, 'WITHSCORES') end
local place = ARGV[1] == 'last' and -1 or 0
return redis.call('ZRANGE', KEYS[1], place, place, 'WITHSCORES')
