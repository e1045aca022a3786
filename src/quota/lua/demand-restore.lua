-- Gives each of these records a place in the order of service, unless it has one.
--
-- KEYS  as in count-changes.lua
-- ARGV  crmCode, rank, crmCode, rank, ...
-- Returns 0.
for i = 1, #ARGV, 2 do
  if not redis.call('ZSCORE', KEYS[2], ARGV[i]) then
    redis.call('ZADD', KEYS[1], 'NX', ARGV[i + 1], ARGV[i])
  end
end
return 0
