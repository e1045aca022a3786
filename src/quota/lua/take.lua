-- Takes a slot of both windows for one permit, if each has one, and writes the pacing, all if that
-- is as the process read it. Without a permit, writes the pacing only.
-- A call that was sent twice, since its connection was lost, takes them once.
--
-- KEYS  1 log  2 slots of the hour  3 slots of the burst  4 pacing
-- ARGV  1 permit id, or empty  2 epoch of the log that the process knows  3 and 4 how long a slot
--       of the hour and of the burst lasts from now, ms  5 state of the pacing that was read
--       6 the new one
-- Returns { 'taken' }, { 'changed' } (the pacing), { 'forgotten' } (the log), or { 'full', ms to
-- wait }.
--- @include "../../ops/lua/now.lua"
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then return { 'taken' } end
if (redis.call('GET', KEYS[4]) or '') ~= ARGV[5] then return { 'changed' } end
if ARGV[1] == '' then
  redis.call('SET', KEYS[4], ARGV[6])
  return { 'taken' }
end
local log = redis.call('HMGET', KEYS[1], 'epoch', 'hour', 'burst')
if log[1] ~= ARGV[2] then return { 'forgotten' } end

local wait = 0
for i = 2, 3 do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
  -- No slot lasts for longer, unless the clock of Redis was set back.
  local last = now + ARGV[i + 1]
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], '(' .. last + 1000, '+inf')) do
    redis.call('ZADD', KEYS[i], last, id)
  end
  local over = redis.call('ZCARD', KEYS[i]) - log[i]
  if over >= 0 then
    wait = math.max(wait, redis.call('ZRANGE', KEYS[i], over, over, 'WITHSCORES')[2] - now)
  end
end
if wait > 0 then return { 'full', math.ceil(wait) } end

redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
redis.call('ZADD', KEYS[3], now + ARGV[4], ARGV[1])
redis.call('HINCRBY', KEYS[1], 'taken', 1)
redis.call('SET', KEYS[4], ARGV[6])
return { 'taken' }
