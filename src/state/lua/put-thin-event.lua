-- Keeps the newer of two thin events of one record. The record is live if one of them is.
--
-- KEYS  1 thin-events: hash <CRM>|<subject> -> JSON { order, event, isLive }
-- ARGV  1 field  2 order  3 event  4 lane
-- Returns 2 when a bulk record became live, else 1 when the event was kept, 0 when it is older than
--         the one that waits.
--- @include "older.lua"
local text = redis.call('HGET', KEYS[1], ARGV[1])
local ok, known = pcall(cjson.decode, text or 'null')
-- Somebody has changed the stored value: the new event takes its place.
if not ok or type(known) ~= 'table' or type(known.order) ~= 'string' then known = nil end
local kept = not known or not older(ARGV[2], known.order)
local isLive = ARGV[4] == 'live' or (known and known.isLive) or nil
if not kept and isLive == known.isLive then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode({
  order = kept and ARGV[2] or known.order,
  event = kept and ARGV[3] or known.event,
  isLive = isLive,
}))
if known and isLive and not known.isLive then return 2 end
return kept and 1 or 0
