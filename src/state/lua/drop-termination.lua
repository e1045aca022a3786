-- Drops a held termination, with the state that waits: the relation stays as the service has it.
--
-- KEYS  1 staged  2 terminations:held  3 verify  4 history  5 audit:acts  6 audit:heads
-- ARGV  1 crmCode  2 verifyMs  3 for how long history is kept, ms ('': not)
--       4 the act for the audit trail, as JSON ('': none)  5 as in push-act.lua
-- Returns 1; 0 when it is not held any more.
--- @include "../../ops/lua/now.lua"
--- @include "staged-fields.lua"
--- @include "leave-late.lua"
--- @include "move-history.lua"
--- @include "keep-act.lua"
if not s.v or s.hv ~= s.v then return 0 end
if ARGV[4] ~= '' then keepAct(KEYS[5], KEYS[6], ARGV[4], ARGV[5]) end
moveHistory(KEYS[1], KEYS[4], ARGV[3])
redis.call('DEL', KEYS[1])
leaveLate(KEYS[1], KEYS[3], ARGV[2], ARGV[1], s)
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
