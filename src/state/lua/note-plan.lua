-- Notes how far a plan was carried out, when, and which of its differences are repaired by now. The
-- differences that the last comparison has found become fewer only if it has made this plan.
--
-- The plan that was begun last is shown. Once it is done, another unfinished plan is shown again:
-- it may have been interrupted.
--
-- KEYS  1 reconciliation:plan:<id>  2 reconciliation  3 reconciliation:feeding
--       4 reconciliation:unfinished: hash id -> JSON { entries, done, requests }
-- ARGV  1 id  2 state: running | done  3 entries carried out  4 entries of the plan
--       5 requests that the other entries need  6 time to live, s
--       7... repaired | left-out, kind and number of such differences since the last note
-- Returns 1; 0 when an operator has cancelled the plan: nothing is noted then.
--- @include "../../ops/lua/now.lua"
--- @include "end-plan.lua"
if redis.call('HGET', KEYS[1], 'state') == 'cancelled' then return 0 end
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'done', ARGV[3], 'at', now)
redis.call('EXPIRE', KEYS[1], ARGV[6])
-- A release before this one did not note which plan it was.
local isLast = (redis.call('HGET', KEYS[2], 'plan') or ARGV[1]) == ARGV[1]
for i = 7, #ARGV, 3 do
  local what, kind, count = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  redis.call('HINCRBY', KEYS[1], what .. ':' .. kind, count)
  local known = isLast and what == 'repaired' and redis.call('HGET', KEYS[2], kind)
  if known then redis.call('HSET', KEYS[2], kind, math.max(0, known - count)) end
end
if ARGV[2] == 'running' then
  redis.call('HSET', KEYS[3], 'plan', ARGV[1], 'entries', ARGV[4], 'done', ARGV[3],
    'requests', ARGV[5])
  redis.call('EXPIRE', KEYS[3], ARGV[6])
  redis.call('HSET', KEYS[4], ARGV[1],
    cjson.encode({ entries = ARGV[4], done = ARGV[3], requests = ARGV[5] }))
  redis.call('EXPIRE', KEYS[4], ARGV[6])
else
  endPlan(KEYS[3], KEYS[4], ARGV[1], ARGV[6])
end
return 1
