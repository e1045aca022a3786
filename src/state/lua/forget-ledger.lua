-- Puts all rows aside, so that no process believes them, and lets the ledger be warmed again. Rows
-- that were put aside before and are still there stay: the newer ones were proven after that.
-- What the service was asked before is not believed either: `forgotten` says when that was.
--
-- KEYS  1 ledger  2 warm-up  3 ledger:forgotten
-- Returns how many rows were put aside.
--- @include "../../ops/lua/now.lua"
-- Redis knows nothing of the service: there is nothing to forget.
if redis.call('EXISTS', unpack(KEYS)) == 0 then return 0 end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], 'forgotten', now)
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
redis.call('RENAME', KEYS[1], KEYS[3])
return redis.call('HLEN', KEYS[3])
