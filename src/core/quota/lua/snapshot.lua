-- Reads everything that the quota shares, for decisions and for operators.
--
-- KEYS  1 log  2 slots of the hour  3 line:live  4 name of a slice without its number
-- ARGV  1 hourMs  2 parts of the hour  3 sliceMs  4 slices before the present one
-- Returns JSON (Shared in sliding-log.ts).
--- @include "../../../base/lua/now.lua"
local hourMs, parts = tonumber(ARGV[1]), tonumber(ARGV[2])
local log = redis.call('HMGET', KEYS[1], 'epoch', 'taken', 'hour', 'burst', 'pacing')
local pacing = log[5] or ''
local slots = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. now, '+inf', 'WITHSCORES')
local returns, foreign = {}, 0
for part = 1, parts do returns[part] = 0 end
for i = 2, #slots, 2 do
  -- A slot whose request has no reply yet may last for longer than the hour.
  local part = math.min(parts, math.ceil((slots[i] - now) * parts / hourMs))
  returns[part] = returns[part] + 1
  -- A name with a colon: only the service has counted it.
  if string.find(slots[i - 1], ':', 1, true) then foreign = foreign + 1 end
end

-- What the order of service knows of the flow: changes in the newest whole slices, and the live line.
local slice, names = math.floor(now / ARGV[3]), {}
for back = 1, tonumber(ARGV[4]) do names[back] = KEYS[4] .. ':' .. slice - back end
local demand = redis.call('MGET', unpack(names))
for i, count in ipairs(demand) do demand[i] = tonumber(count or 0) end
local first = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'WITHSCORES', 'LIMIT', 0, 1)

return cjson.encode({
  now = now, epoch = log[1] or '', taken = tonumber(log[2]) or 0, pacing = pacing,
  version = table.concat({ log[1] or '', log[2] or '', pacing }, ' '),
  limit = tonumber(log[3]), burst = tonumber(log[4]),
  running = #slots / 2, foreign = foreign, returns = returns,
  nextReturnAt = tonumber(slots[2]) or now, allReturnedAt = tonumber(slots[#slots]) or now,
  demand = demand, waiting = redis.call('ZCOUNT', KEYS[3], '-inf', now),
  lowestRank = tonumber(first[2]),
})
