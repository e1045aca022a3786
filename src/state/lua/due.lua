-- Counts the pointer jobs that may run now: none of the lane bulk while an operator has paused it.
--
-- KEYS  1 wait  2 prioritized  3 delayed  4 bulk:pause
-- ARGV  1 highest score of a delayed job that is due  2 lowest score of a bulk job that waits
-- Returns { live, bulk }; a retry that is due counts as live.
local live = redis.call('LLEN', KEYS[1]) + redis.call('ZCOUNT', KEYS[3], 0, ARGV[1])
  + redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. ARGV[2])
local bulk = redis.call('EXISTS', KEYS[4]) == 1 and 0
  or redis.call('ZCOUNT', KEYS[2], ARGV[2], '+inf')
return { live, bulk }
