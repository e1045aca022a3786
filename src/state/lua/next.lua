-- Gives the first record that is due in a line to one worker: its place moves to the end of its
-- hold,
-- so it comes due again by itself if the worker dies.
--
-- KEYS  1 line:live  2 line:bulk  3 bulk:pause
-- ARGV  1 how long the hold lasts, ms  2 'live': only a live record
-- Returns its crmCode; nothing when none is due.
--- @include "../../ops/lua/now.lua"
local last = (ARGV[2] == 'live' or redis.call('EXISTS', KEYS[3]) == 1) and 1 or 2
for lane = 1, last do
  local due = redis.call('ZRANGEBYSCORE', KEYS[lane], '-inf', now, 'LIMIT', 0, 1)[1]
  if due then
    redis.call('ZADD', KEYS[lane], now + ARGV[1], due)
    return due
  end
end
