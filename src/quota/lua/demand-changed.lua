-- Counts staged changes of live records, and moves their records forward in the order of service.
-- A record that waits for a retry is served at once: its new state has not failed.
--
-- KEYS  1 priorities  2 postponed  3 ranks of the postponed
-- ARGV  1 prefix of the demand keys  2 sliceMs  3 time to live of a slice, ms
--       4 bonusMs for each further change  5... crmCode of each change
-- Returns 0.
--- @include "../../ops/lua/now.lua"
--- @include "postponed.lua"
local slice = ARGV[1] .. string.format('%d', math.floor(now / ARGV[2]))
for i = 5, #ARGV do
  redis.call('PFADD', slice, ARGV[i])
  local rank = better(redis.call('ZSCORE', KEYS[1], ARGV[i]), endWait(ARGV[i]))
  redis.call('ZADD', KEYS[1], rank and rank - ARGV[4] or now, ARGV[i])
end
redis.call('PEXPIRE', slice, ARGV[3])
return 0
