-- Takes slots and writes the pacing, if nothing has changed since the process read it and both windows
-- have room. Without a version it says anew when slots end: after a reply, while there is none, at
-- once, or of slots that Redis forgot. A call that was sent twice (its connection was lost) takes once.
--
-- KEYS  1 log  2 slots of the hour  3 slots of the burst
-- ARGV  1 JSON: [id, ms until its slot of the hour ends, and of the burst] of each; 0: it ends now;
--       -1: it stays as it is  2 version that was read (snapshot.lua)  3 the new pacing
-- Returns nothing when done, else how long to wait, ms; 0: read again, something has changed.
--- @include "../../../base/lua/now.lua"
local slots = cjson.decode(ARGV[1])
local first = slots[1]
if ARGV[2] then
  local log = redis.call('HMGET', KEYS[1], 'epoch', 'taken', 'hour', 'burst', 'pacing')
  local version = { log[1] or '', log[2] or '', log[5] or '' }
  if table.concat(version, ' ') ~= ARGV[2] then
    return not (first and redis.call('ZSCORE', KEYS[2], first[1])) and 0
  end
  -- Only a permit takes a slot of the burst. What another program has spent has room: it was counted.
  local wait = 0
  for i = 2, first and first[3] > 0 and 3 or 0 do
    redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
    local over = redis.call('ZCARD', KEYS[i]) - log[i + 1]
    if over >= 0 then
      -- No slot lasts for longer, unless the clock of Redis was set back.
      local last = now + first[i]
      for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], '(' .. last + 1000, '+inf')) do
        redis.call('ZADD', KEYS[i], last, id)
      end
      wait = math.max(wait, redis.call('ZRANGE', KEYS[i], over, over, 'WITHSCORES')[2] - now)
    end
  end
  if wait > 0 then return math.ceil(wait) end
  redis.call('HSET', KEYS[1], 'taken', (tonumber(log[2]) or 0) + #slots, 'pacing', ARGV[3])
end
for _, slot in ipairs(slots) do
  for i = 2, 3 do
    if slot[i] == 0 then redis.call('ZREM', KEYS[i], slot[1]) end
    if slot[i] > 0 then redis.call('ZADD', KEYS[i], now + slot[i], slot[1]) end
  end
end
return false
