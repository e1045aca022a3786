-- Counts staged changes of live records, and moves their records forward in the order of service.
--
-- KEYS  1 priorities
-- ARGV  1 prefix of the demand keys  2 sliceMs  3 time to live of a slice, ms
--       4 bonusMs for each further change  5... crmCode of each change
-- Returns 0.
--- @include "../../ops/lua/now.lua"
local slice = ARGV[1] .. string.format('%d', math.floor(now / ARGV[2]))
for i = 5, #ARGV do
  redis.call('PFADD', slice, ARGV[i])
  if redis.call('ZADD', KEYS[1], 'NX', now, ARGV[i]) == 0 then
    redis.call('ZINCRBY', KEYS[1], -ARGV[4], ARGV[i])
  end
end
redis.call('PEXPIRE', slice, ARGV[3])
return 0
