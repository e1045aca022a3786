-- Deletes a thin event that was fetched, unless a newer one has come since it was read.
--
-- KEYS  1 thin-events
-- ARGV  1 field  2 its value when it was read
-- Returns 1 when it was deleted, else 0.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
