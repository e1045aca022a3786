-- Takes the turn of one permit, when its time has come.
--
-- KEYS  1 pace  2 in-flight  3 priorities
-- ARGV  1 pacing: free | probing | steady  2 intervalMs: time since the last turn; 0 none
--       3 steadyMs: time in which the steady bucket gains one token  4 burst
--       5 depth: turns that the steady bucket lets through at once  6 permitId
--       7 longest time that a request counts as in flight, ms  8 early: by this part of the
--       lead of the record served next
-- Returns 0 when the turn is taken, else how long to wait, ms.
local pacing, intervalMs, steadyMs = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local burst, depth = tonumber(ARGV[4]), tonumber(ARGV[5])
--- @include "../../ops/lua/now.lua"
--- @include "pace.lua"
--- @include "bucket-level.lua"
--- @include "turn.lua"
if (pace.stop or 0) > now then return math.ceil(pace.stop - now) end
local turn = pace.turn or 0
if intervalMs > 0 then
  local lowest = tonumber(redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2])
  local wait = turnAt(turn, intervalMs, tonumber(ARGV[8]), lowest) - now
  if wait > 0 then return math.ceil(wait) end
end

-- After a 429 one request goes alone: it finds out whether the stop was long enough.
local alone, inFlight = (pace.failures or 0) > 0, 0
if alone or pacing == 'probing' then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  inFlight = redis.call('ZCARD', KEYS[2])
end
if alone and inFlight > 0 then return 20 end

if pacing == 'steady' then
  local tat = math.max(pace.tat or 0, now)
  local early = tat - now - (depth - 1) * steadyMs
  if early > 0 then return math.ceil(early) end
  redis.call('HSET', KEYS[1], 'tat', tat + steadyMs)
elseif pacing == 'probing' then
  -- Where a reply takes longer than a token, one request at a time would never prove a burst:
  -- allow more in flight, step by step.
  if inFlight > math.floor((pace.eased or 0) / 4) and level - inFlight < 1 then return 20 end
end
if alone or pacing == 'probing' then redis.call('ZADD', KEYS[2], now + ARGV[7], ARGV[6]) end
-- After a late turn the next one may be early; otherwise every delay would be lost for good.
redis.call('HSET', KEYS[1], 'turn', math.max(turn + intervalMs, now - intervalMs))
return 0
