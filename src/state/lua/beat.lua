-- Writes the heartbeat of a process, dated by the shared clock. Forgets those that ended long ago.
--
-- KEYS  1 heartbeats  2 clock
-- ARGV  1 id of the process  2 what it says of itself, as JSON  3 for how long one is kept, ms
-- Returns nothing.
-- The sender's view of the clock would date it too early, if it has waited for Redis since.
local clock = redis.call('TIME')
local steps = tonumber(redis.call('HGET', KEYS[2], 'offset')) or 0
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + steps
local said = cjson.decode(ARGV[2])
said.seenAt = now
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(said))
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if now - cjson.decode(all[i + 1]).seenAt > tonumber(ARGV[3]) then
    redis.call('HDEL', KEYS[1], all[i])
  end
end
