-- Ends a plan before it is carried out: it counts as used.
--
-- KEYS  1 reconciliation:plan:<id>  2 reconciliation:feeding
-- ARGV  1 id
-- Returns 1; 0 when it is done by now, or another plan was begun.
--- @include "../../ops/lua/now.lua"
if redis.call('HGET', KEYS[2], 'plan') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
if redis.call('HGET', KEYS[1], 'state') ~= 'running' then return 0 end
redis.call('HSET', KEYS[1], 'state', 'cancelled', 'at', now)
return 1
