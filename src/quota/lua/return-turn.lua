-- Returns the turn of a permit that was not used.
--
-- KEYS  1 pace  2 in-flight
-- ARGV  1 permitId  2 intervalMs  3 steadyMs  4 pacing, as they were when the turn was taken
-- Returns 0.
redis.call('ZREM', KEYS[2], ARGV[1])
if ARGV[2] ~= '0' then redis.call('HINCRBYFLOAT', KEYS[1], 'turn', -ARGV[2]) end
if ARGV[4] == 'steady' then redis.call('HINCRBYFLOAT', KEYS[1], 'tat', -ARGV[3]) end
return 0
