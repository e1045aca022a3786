/**
 * The quota's own scripts; each runs alone in Redis and by its clock.
 *
 * Fields of the pace hash (times in ms):
 *   stop    until when nobody sends                row    429s in a row without a usable header
 *   turn    when the last spread turn was due      tat    when the steady bucket is full again
 *   steady  until when pacing is steady            proven until when bursts count as allowed
 *   level   tokens that a bucket of `burst` filled at the hour's rate would hold by answers given
 *   at      when `level` was counted               trip   longest time to an answer while probing
 *   eased   answers accepted when such a bucket would have been about empty
 */

const NOW = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
`;

const PACE = `
local p = {}
local flat = redis.call('HGETALL', pace)
for i = 1, #flat, 2 do p[flat[i]] = tonumber(flat[i + 1]) end
`;

/** What the bucket's tokens have become by now. A bucket never seen is full. */
const LEVEL = `
local level = math.min(burst, (p.level or burst) + (now - (p.at or now)) / steadyMs)
`;

/**
 * KEYS pace hourSettings hourExpirations turns
 * ARGV demandPrefix hourMs maxHoldMs parts sliceMs slicesKept
 * Returns JSON of everything that decisions and operators look at.
 */
export const LOOK = `
local pace = KEYS[1]
${NOW}
${PACE}
local hourMs, maxHoldMs, parts = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local log = redis.call('HMGET', KEYS[2], 'maxConcurrent', 'running', 'done')
local returns, edge = {}, '-inf'
for part = 1, parts do
  local till = now + maxHoldMs + part * hourMs / parts
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
  stop = p.stop or 0, steady = p.steady or 0, proven = p.proven or 0, row = p.row or 0
})
`;

/**
 * KEYS pace open
 * ARGV mode intervalMs steadyMs burst depth permitId holdMs
 *   mode      free | steady | probing
 *   intervalMs least time since the last turn; 0 none
 *   depth     turns that the steady bucket lets through at once
 * Returns 0 when the turn is taken, else how long to wait, ms.
 */
export const CLAIM = `
local pace, mode, intervalMs, steadyMs = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local burst, depth = tonumber(ARGV[4]), tonumber(ARGV[5])
${NOW}
${PACE}
if (p.stop or 0) > now then return math.ceil(p.stop - now) end
local turn = p.turn or 0
if turn + intervalMs > now then return math.ceil(turn + intervalMs - now) end

if mode == 'steady' then
  local tat = math.max(p.tat or 0, now)
  local early = tat - now - (depth - 1) * steadyMs
  if early > 0 then return math.ceil(early) end
  redis.call('HSET', pace, 'tat', tat + steadyMs)
elseif mode == 'probing' then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  local open = redis.call('ZCARD', KEYS[2])
  ${LEVEL}
  -- Where answers take longer than a token, one at a time would never tell: more, step by step.
  if open > math.floor((p.eased or 0) / 4) and level - open < 1 then return 20 end
  redis.call('ZADD', KEYS[2], now + ARGV[7], ARGV[6])
end
-- A turn that came late may be followed by one that comes early, or every delay would be lost.
redis.call('HSET', pace, 'turn', math.max(turn + intervalMs, now - intervalMs))
return 0
`;

/**
 * KEYS pace open; ARGV permitId intervalMs steadyMs mode
 * A permit that was not used gives its turn back.
 */
export const RETURN = `
local pace = KEYS[1]
redis.call('ZREM', KEYS[2], ARGV[1])
if ARGV[2] ~= '0' then redis.call('HINCRBYFLOAT', pace, 'turn', -ARGV[2]) end
if ARGV[4] == 'steady' then redis.call('HINCRBYFLOAT', pace, 'tat', -ARGV[3]) end
return 0
`;

/**
 * KEYS pace open; ARGV permitId steadyMs burst margin dayMs accepted tripMs
 * An answer while bursts are unproven. The bucket is counted by answers, so it holds less than the
 * service's own would by at most what flows in while a request is on its way. Once a request was
 * accepted though even that had been spent, by more than the margin, the burst is proven.
 * Returns 1 when this answer proved it.
 */
export const ANSWERED = `
local pace, steadyMs, burst = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3])
${NOW}
${PACE}
redis.call('ZREM', KEYS[2], ARGV[1])
${LEVEL}
local trip = math.max(p.trip or 0, tonumber(ARGV[7]))
redis.call('HSET', pace, 'level', level - 1, 'at', now, 'row', 0, 'trip', trip)
if ARGV[6] ~= '1' or level >= 2 or (p.proven or 0) > now then return 0 end
redis.call('HINCRBY', pace, 'eased', 1)
if level + trip / steadyMs > -ARGV[4] then return 0 end
redis.call('HSET', pace, 'proven', now + ARGV[5])
return 1
`;

/**
 * KEYS pace open
 * ARGV permitId waitMs unexplained steadyMs depth dayMs baseMs capMs random
 *   waitMs       what the answer asks for; '' nothing usable: doubled from baseMs, half by chance
 *   unexplained  '1' when our own count did not foresee this 429
 * Stops everybody, never for less than before. Returns {until, switched to steady 0|1, newly stopped 0|1}.
 */
export const THROTTLED = `
local pace = KEYS[1]
${NOW}
${PACE}
redis.call('ZREM', KEYS[2], ARGV[1])
local stopped = (p.stop or 0) > now
local wait = tonumber(ARGV[2])
if not wait then
  local row = p.row or 0
  if not stopped then row = redis.call('HINCRBY', pace, 'row', 1) end
  wait = math.min(tonumber(ARGV[8]), ARGV[7] * 2 ^ math.min(row - 1, 20)) * (0.5 + ARGV[9] / 2)
end
local stop = math.max(p.stop or 0, math.ceil(now + wait))
redis.call('HSET', pace, 'stop', stop)
local switched = 0
if ARGV[3] == '1' then
  if (p.steady or 0) <= now then switched = 1 end
  redis.call('HSET', pace, 'steady', now + ARGV[6], 'tat', now + ARGV[5] * ARGV[4])
  redis.call('HDEL', pace, 'proven', 'level', 'at', 'trip', 'eased')
end
return {string.format('%d', stop), switched, stopped and 0 or 1}
`;
