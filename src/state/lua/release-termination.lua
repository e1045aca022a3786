-- Lets a held termination be sent: a person has approved it. It keeps its place among the events of
-- its record, and waits from now on.
--
-- KEYS  1 staged  2 terminations:held  3 unsynced:live  4 unsynced:bulk  5 audit:acts
--       6 audit:heads
-- ARGV  1 crmCode  2 the act for the audit trail, as JSON ('': none)  3 as in push-act.lua
-- Returns its lane; '' when it is not held any more.
local crmCode = ARGV[1]
--- @include "../../ops/lua/now.lua"
--- @include "staged-fields.lua"
--- @include "keep-act.lua"
if not s.v or s.hv ~= s.v then return '' end
if ARGV[2] ~= '' then keepAct(KEYS[5], KEYS[6], ARGV[2], ARGV[3]) end
redis.call('HSET', KEYS[1], 'ok', '1', 't0', now)
redis.call('HDEL', KEYS[1], 'hv')
redis.call('ZADD', s.l == 'live' and KEYS[3] or KEYS[4], now, crmCode)
redis.call('ZREM', KEYS[2], crmCode)
return s.l
