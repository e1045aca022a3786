-- Keeps the newer of two thin events of one record.
--
-- KEYS  1 thin-events: hash <CRM>|<subject> -> JSON { order, event }
-- ARGV  1 field  2 order  3 event
-- Returns 1 when the event was kept, 0 when it is older than the one that waits.
--- @include "older.lua"
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known and older(ARGV[2], cjson.decode(known).order) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode({ order = ARGV[2], event = ARGV[3] }))
return 1
