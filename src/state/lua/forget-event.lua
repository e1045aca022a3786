-- Forgets that an event was seen.
--
-- KEYS  seen:<this week>  seen:<last week>
-- ARGV  1 eventKey
-- Returns nothing.
--- @include "seen-place.lua"
local bucket, member = seenPlace(ARGV[1])
for _, week in ipairs(KEYS) do redis.call('SREM', week .. bucket, member) end
