-- Ends a plan before it is carried out: it counts as used.
--
-- KEYS  1 reconciliation:plan:<id>  2 reconciliation:feeding  3 reconciliation:unfinished
-- ARGV  1 id  2 time to live of what is shown, s  3 '1': only if it is the plan that is shown
-- Returns 1; 0 when it is done by now, or another plan was begun.
--- @include "../../ops/lua/now.lua"
--- @include "end-plan.lua"
if ARGV[3] == '1' and redis.call('HGET', KEYS[2], 'plan') ~= ARGV[1] then return 0 end
endPlan(KEYS[2], KEYS[3], ARGV[1], ARGV[2])
if redis.call('HGET', KEYS[1], 'state') ~= 'running' then return 0 end
redis.call('HSET', KEYS[1], 'state', 'cancelled', 'at', now)
return 1
