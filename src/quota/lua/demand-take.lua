-- Takes a record out of the order of service.
--
-- KEYS  as in count-changes.lua
-- ARGV  1 crmCode
-- Returns its rank; nil when it had no place.
--- @include "postponed.lua"
local rank = better(redis.call('ZSCORE', KEYS[1], ARGV[1]), endWait(ARGV[1]))
redis.call('ZREM', KEYS[1], ARGV[1])
return rank
