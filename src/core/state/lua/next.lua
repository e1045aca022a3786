-- Gives the first record of a line to one worker: until the end of its hold it waits for later, so it comes due
-- again by itself if the worker dies.
--
-- KEYS  1 line:live  2 line:bulk  3 line:later  4 bulk:pause
-- ARGV  1 prefix of the staged keys  2 how long the hold lasts, ms  3 'live': only a live record; 'any': one of
--       both lines by chance, from what follows: 4 in [0, 1)
-- Returns its crmCode; nothing when none may be sent.
--- @include "../../../base/lua/now.lua"
local lines, later, staged = { live = KEYS[1], bulk = KEYS[2] }, KEYS[3], ARGV[1]
--- @include "./move-due.lua"
local isAny = ARGV[3] == 'any'
local last = (ARGV[3] == 'live' or redis.call('EXISTS', KEYS[4]) == 1) and 1 or 2
local first = 1
if isAny and last == 2 then
  local live, bulk = redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2])
  if ARGV[4] * (live + bulk) >= live then first = 2 end
end
for lane = first, last do
  local crmCode
  if isAny then
    crmCode = redis.call('ZRANDMEMBER', KEYS[lane])
    if crmCode then redis.call('ZREM', KEYS[lane], crmCode) end
  else
    crmCode = redis.call('ZPOPMIN', KEYS[lane])[1]
  end
  if crmCode then
    redis.call('ZADD', later, now + ARGV[2], crmCode)
    return crmCode
  end
end
