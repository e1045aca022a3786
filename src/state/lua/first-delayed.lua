-- Reads the first job of a BullMQ queue that waits for its next try.
--
-- KEYS  1 delayed
-- ARGV  1 prefix of the keys of its jobs
-- Returns { why its last try failed, its data as JSON }; false for what is not there.
local id = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if not id then return {} end
return redis.call('HMGET', ARGV[1] .. id, 'failedReason', 'data')
