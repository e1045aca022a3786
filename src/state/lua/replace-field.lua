-- Writes fields of a hash, each unless it was changed since the caller read it.
--
-- KEYS  1 the hash
-- ARGV  field, what the caller read, new value, ...
-- Returns how many were written.
local written = 0
for i = 1, #ARGV, 3 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
    written = written + 1
  end
end
return written
