-- Reads everything that the quota shares, for decisions and for operators.
--
-- KEYS  1 pace  2 hour_settings  3 hour_job_expirations  4 priorities  5 table of what was learnt
--       6 hour_job_weights
-- ARGV  1 hourMs  2 hourHoldMs  3 parts of the hour  4 sliceMs  5 slices to read
-- Returns JSON (RawSnapshot in snapshot.ts).
--- @include "../../ops/lua/now.lua"
--- @include "pace.lua"
--- @include "slices.lua"
local hourMs, hourHoldMs, parts = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local log = redis.call('HMGET', KEYS[2], 'maxConcurrent', 'running', 'done')
local running, done = tonumber(log[2]) or 0, tonumber(log[3]) or 0

-- A lease holds one slot, except that of requests which another program has sent.
local ofOne = running == redis.call('ZCARD', KEYS[3])
local function slotsOf(from, till)
  if ofOne then return redis.call('ZCOUNT', KEYS[3], from, till) end
  local slots = 0
  for _, lease in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], from, till)) do
    slots = slots + (tonumber(redis.call('HGET', KEYS[6], lease)) or 0)
  end
  return slots
end

-- These leases are over. Bottleneck removes them when a process looks next, which may be later.
local ended = slotsOf('-inf', '(' .. now)
local returns, edge = {}, now
for part = 1, parts do
  local till = now + hourHoldMs + part * hourMs / parts
  returns[part] = slotsOf(edge, till)
  edge = '(' .. till
end
local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
local first = redis.call('ZRANGEBYSCORE', KEYS[3], now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)

local sliceMs = tonumber(ARGV[4])
local slice = math.floor(now / sliceMs)
local get = {}
for i = 0, tonumber(ARGV[5]) do
  get[3 * i + 1], get[3 * i + 2], get[3 * i + 3] = 'GET', 'u32', slotOfSlice(slice - i)
end
local changes = redis.call('BITFIELD_RO', KEYS[5], unpack(get))
for i, word in ipairs(changes) do changes[i] = countOfSlice(word, slice + 1 - i) end
local current = table.remove(changes, 1)

return cjson.encode({
  now = now, limit = tonumber(log[1]) or -1, running = running - ended,
  done = done + ended, returns = returns, demand = changes,
  current = { changed = current, passed = now / sliceMs - slice },
  waiting = redis.call('ZCARD', KEYS[4]),
  last = tonumber(last[2]) or 0, first = tonumber(first[2]) or 0,
  stop = pace.stop or 0, steady = pace.steady or 0, proven = pace.proven or 0,
  failures = pace.failures or 0,
})
