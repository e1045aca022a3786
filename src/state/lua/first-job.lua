-- Finds the pointer job that BullMQ takes next, unless it is of the lane bulk.
--
-- KEYS  1 wait  2 prioritized
-- ARGV  1 prefix of the queue's jobs  2 lowest score of a bulk job that waits
-- Returns { id, data of the job }; nil when none waits.
local id = redis.call('LINDEX', KEYS[1], -1)
  or redis.call('ZRANGE', KEYS[2], '-inf', '(' .. ARGV[2], 'BYSCORE', 'LIMIT', 0, 1)[1]
local data = id and redis.call('HGET', ARGV[1] .. id, 'data')
return data and { id, data }
