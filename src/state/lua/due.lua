-- Counts the pointer jobs that may run now, and the records that may need one. The lane bulk has
-- none of either while an operator has paused it.
--
-- KEYS  1 wait  2 prioritized  3 delayed  4 bulk:pause  5 priorities  6 unsynced:bulk
-- ARGV  1 highest score of a delayed job that is due  2 lowest score of a bulk job that waits
--       3 prefix of the queue's jobs  4 priority of a live job
-- Returns { live jobs, bulk jobs, live records, bulk records }.
local LOOKED_AT = 100
local live = redis.call('LLEN', KEYS[1]) + redis.call('ZCOUNT', KEYS[3], 0, ARGV[1])
  + redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. ARGV[2])
-- A retry has the lane of its record. Only some are looked at: the others count as live.
local bulk = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], 0, ARGV[1], 'LIMIT', 0, LOOKED_AT)) do
  local priority = tonumber(redis.call('HGET', ARGV[3] .. id, 'priority') or 0)
  if priority > tonumber(ARGV[4]) then bulk = bulk + 1 end
end
live = live - bulk
local placed = redis.call('ZCARD', KEYS[5])
if redis.call('EXISTS', KEYS[4]) == 1 then return { live, 0, placed, 0 } end
bulk = bulk + redis.call('ZCOUNT', KEYS[2], ARGV[2], '+inf')
return { live, bulk, placed, redis.call('ZCARD', KEYS[6]) }
