-- Tells which events were seen before. It is a script because a pipeline of ioredis copies all
-- commands of the client.
--
-- KEYS  seen:<this week>  seen:<last week>
-- ARGV  eventKey...
-- Returns 0 | 1 for each event key.
--- @include "seen-place.lua"
local flags = {}
for i, eventKey in ipairs(ARGV) do
  local bucket, member = seenPlace(eventKey)
  flags[i] = 0
  for _, week in ipairs(KEYS) do
    if redis.call('SISMEMBER', week .. bucket, member) == 1 then flags[i] = 1 end
  end
end
return flags
