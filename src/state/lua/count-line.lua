-- Counts what stands in the lines.
--
-- KEYS  1 line:live  2 line:bulk  3 line:in-flight
-- Returns how many are due in each lane, how many a worker has taken, how many wait for later,
-- and when
-- the last one of each lane is due, ms ('0': none waits for later).
--- @include "../../ops/lua/now.lua"
local taken, later, due, last = redis.call('ZCOUNT', KEYS[3], now, '+inf'), 0, {}, {}
for lane = 1, 2 do
  due[lane] = redis.call('ZCOUNT', KEYS[lane], '-inf', now)
  later = later + redis.call('ZCARD', KEYS[lane]) - due[lane]
  local found = redis.call('ZREVRANGEBYSCORE', KEYS[lane], '+inf', '(' .. now, 'WITHSCORES',
    'LIMIT', 0, 1)
  last[lane] = found[2] or '0'
end
return { due[1], due[2], taken, math.max(0, later - taken), last[1], last[2] }
