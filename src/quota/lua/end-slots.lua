-- Says anew when slots end: after a reply, while there is none, at once, or of slots that Redis
-- forgot.
--
-- KEYS  1 slots of the hour  2 slots of the burst
-- ARGV  1 JSON: [permit id, ms until its slot of the hour ends, and of the burst] of each.
--       0: it ends now; -1: it stays as it is.
-- Returns 0.
--- @include "../../ops/lua/now.lua"
for _, slot in ipairs(cjson.decode(ARGV[1])) do
  for i = 1, 2 do
    local ms = slot[i + 1]
    if ms == 0 then redis.call('ZREM', KEYS[i], slot[1]) end
    if ms > 0 then redis.call('ZADD', KEYS[i], now + ms, slot[1]) end
  end
end
return 0
