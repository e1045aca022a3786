-- Gives locks the time to live that they had before Redis' own clock stepped back: Redis ends them
-- by that clock. Locks that were taken since are known by their shorter time to live.
--
-- KEYS  1... locks
-- ARGV  1 how far it stepped back, ms  2... prefix of the keys of each queue
-- Returns 0.
local step = tonumber(ARGV[1])
local function shorten(key)
  local left = redis.call('PTTL', key)
  if left > step then redis.call('PEXPIRE', key, left - step) end
end
for _, key in ipairs(KEYS) do shorten(key) end
for i = 2, #ARGV do
  shorten(ARGV[i] .. 'limiter')
  shorten(ARGV[i] .. 'stalled-check')
  for _, id in ipairs(redis.call('LRANGE', ARGV[i] .. 'active', 0, -1)) do
    shorten(ARGV[i] .. id .. ':lock')
  end
end
return 0
