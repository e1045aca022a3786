-- Drops bulk changes that wait. A record whose change is under way is left alone, and so is one
-- that a live event has promoted, and a termination that a person has released.
--
-- KEYS  1 unsynced:bulk  2 verify  3 bulk:cancelled
--       4 seen:<this week>  5 seen:<last week>  then staged and history of each record
-- ARGV  1 drop no state with a higher number than this  2 verifyMs
--       3 for how long history is kept, ms ('': not)  4... crmCodes, in the order of the keys
-- Returns { how many are under way, the crmCodes of what was dropped }.
--- @include "../../ops/lua/now.lua"
--- @include "leave-late.lua"
--- @include "seen-place.lua"
--- @include "move-history.lua"
local last, verifyMs, historyMs = tonumber(ARGV[1]), ARGV[2], ARGV[3]

-- Its events are no longer known: the same import may be sent again.
local function forgetEvents(eventKeys)
  for eventKey in string.gmatch(eventKeys or '', '%S+') do
    local bucket, member = seenPlace(eventKey)
    for week = 4, 5 do redis.call('SREM', KEYS[week] .. bucket, member) end
  end
end

local function drop(key, history, crmCode, s)
  moveHistory(key, history, historyMs)
  redis.call('DEL', key)
  leaveLate(key, KEYS[2], verifyMs, crmCode, s)
  redis.call('ZREM', KEYS[1], crmCode)
  forgetEvents(s.ek)
end

local busy, dropped = 0, {}
for i = 4, #ARGV do
  local key, history, crmCode = KEYS[2 * i - 2], KEYS[2 * i - 1], ARGV[i]
  if redis.call('ZSCORE', KEYS[1], crmCode) then
    local f = redis.call('HMGET', key, 'v', 'l', 'hv', 'tv', 'tu', 'lt', 'ek', 'ok')
    local s = { v = f[1], l = f[2], hv = f[3], tv = f[4], tu = f[5], lt = f[6], ek = f[7] }
    s.ok = f[8]
    if not s.v then redis.call('ZREM', KEYS[1], crmCode)
    elseif s.tv and s.tu and tonumber(s.tu) > now then busy = busy + 1
    elseif s.l == 'bulk' and s.hv ~= s.v and not s.ok and tonumber(s.v) <= last then
      drop(key, history, crmCode, s)
      dropped[#dropped + 1] = crmCode
    end
  end
end
if #dropped > 0 then redis.call('INCRBY', KEYS[3], #dropped) end
return { busy, dropped }
