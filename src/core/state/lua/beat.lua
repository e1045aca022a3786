-- Writes the heartbeat of a process, dated by Redis. Forgets processes that ended long
-- ago. What stays the same is written once: an idle process writes little else than heartbeats.
--
-- KEYS  1 heartbeats
-- ARGV  1 id of the process  2 what it says of itself, as JSON  3 what differs each time, as JSON
--       4 for how long a heartbeat is kept, ms
-- Returns nothing.
--- @include "../../../base/lua/now.lua"
local beat = cjson.decode(ARGV[3])
beat.seenAt = now
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
redis.call('HSET', KEYS[1], ARGV[1] .. '@', cjson.encode(beat))
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local id = string.match(all[i], '^(.*)@$')
  if id and now - cjson.decode(all[i + 1]).seenAt > tonumber(ARGV[4]) then
    redis.call('HDEL', KEYS[1], id, all[i])
  end
end
