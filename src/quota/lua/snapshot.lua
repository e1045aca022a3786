-- Reads everything that the quota shares, for decisions and for operators.
--
-- KEYS  1 pace  2 hour_settings  3 hour_job_expirations  4 priorities
-- ARGV  1 prefix of the demand keys  2 hourMs  3 hourHoldMs  4 parts of the hour  5 sliceMs
--       6 slices of demand to read
-- Returns JSON (RawSnapshot in snapshot.ts).
--- @include "../../ops/lua/now.lua"
--- @include "pace.lua"
local hourMs, hourHoldMs, parts = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local log = redis.call('HMGET', KEYS[2], 'maxConcurrent', 'running', 'done')

local returns, edge = {}, '-inf'
for part = 1, parts do
  local till = now + hourHoldMs + part * hourMs / parts
  returns[part] = redis.call('ZCOUNT', KEYS[3], edge, till)
  edge = '(' .. till
end
local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
local first = redis.call('ZRANGEBYSCORE', KEYS[3], now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)

local sliceMs = tonumber(ARGV[5])
local slice = math.floor(now / sliceMs)
local function changedIn(index)
  return redis.call('PFCOUNT', ARGV[1] .. string.format('%d', index))
end
local demand = {}
for i = 1, tonumber(ARGV[6]) do demand[i] = changedIn(slice - i) end

return cjson.encode({
  now = now, limit = tonumber(log[1]) or -1, running = tonumber(log[2]) or 0,
  done = tonumber(log[3]) or 0, returns = returns, demand = demand,
  current = { changed = changedIn(slice), passed = now / sliceMs - slice },
  waiting = redis.call('ZCARD', KEYS[4]),
  last = tonumber(last[2]) or 0, first = tonumber(first[2]) or 0,
  stop = pace.stop or 0, steady = pace.steady or 0, proven = pace.proven or 0,
  failures = pace.failures or 0,
})
