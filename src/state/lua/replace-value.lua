-- Writes a value, unless another process has changed it since the caller read it.
--
-- KEYS  1 the value
-- ARGV  1 what the caller read ('': nothing)  2 the new value
-- Returns 1 when it was written, else 0.
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
