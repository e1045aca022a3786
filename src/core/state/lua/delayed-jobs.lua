-- Reads the first jobs of a BullMQ queue that wait for their next try.
--
-- KEYS  1 delayed
-- ARGV  1 prefix of the keys of its jobs  2 how many at most
-- Returns of each why its last try failed, and its data as JSON; '' for what is not there.
local found = {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, ARGV[2] - 1)) do
  local why, data = unpack(redis.call('HMGET', ARGV[1] .. id, 'failedReason', 'data'))
  found[#found + 1] = why or ''
  found[#found + 1] = data or ''
end
return found
