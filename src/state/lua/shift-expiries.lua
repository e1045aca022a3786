-- Gives locks the time to live that they had before a step of Redis' own clock, by which Redis ends
-- them. What a step forward has ended already stays ended.
--
-- KEYS  1... locks
-- ARGV  1 step, ms  2... prefix of the keys of each queue
-- Returns 0.
local function shift(key)
  local left = redis.call('PTTL', key)
  if left > 0 then redis.call('PEXPIRE', key, math.max(1, left + ARGV[1])) end
end
for _, key in ipairs(KEYS) do shift(key) end
for i = 2, #ARGV do
  shift(ARGV[i] .. 'limiter')
  shift(ARGV[i] .. 'stalled-check')
  for _, id in ipairs(redis.call('LRANGE', ARGV[i] .. 'active', 0, -1)) do
    shift(ARGV[i] .. id .. ':lock')
  end
end
return 0
