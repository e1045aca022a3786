-- Counts the pointer jobs that may run now, and the records that may need one: of the lane bulk
-- none while an operator has paused it.
--
-- KEYS  1 wait  2 prioritized  3 delayed  4 bulk:pause  5 priorities  6 unsynced:bulk
-- ARGV  1 highest score of a delayed job that is due  2 lowest score of a bulk job that waits
-- Returns { live jobs, bulk jobs, live records, bulk records }; a retry that is due counts as live.
local live = redis.call('LLEN', KEYS[1]) + redis.call('ZCOUNT', KEYS[3], 0, ARGV[1])
  + redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. ARGV[2])
local placed = redis.call('ZCARD', KEYS[5])
if redis.call('EXISTS', KEYS[4]) == 1 then return { live, 0, placed, 0 } end
local bulk = redis.call('ZCOUNT', KEYS[2], ARGV[2], '+inf')
return { live, bulk, placed, redis.call('ZCARD', KEYS[6]) }
