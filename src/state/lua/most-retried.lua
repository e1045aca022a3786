-- Finds the record that has failed for longest.
--
-- KEYS  1 retried  2 prefix of the staged keys
-- ARGV  1 least time that records have failed for, ms
-- Returns { how many have, crmCode of the first, its state }, or {} when none has.
--- @include "../../ops/lua/now.lua"
local records = redis.call('ZCOUNT', KEYS[1], '-inf', now - ARGV[1])
if records == 0 then return {} end
local crmCode = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
return { tostring(records), crmCode, redis.call('HGET', KEYS[2] .. crmCode, 'state') or nil }
