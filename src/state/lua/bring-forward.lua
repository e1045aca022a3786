-- Puts the pointer job of a record before all others, unless it runs or its retry is not due. Looks
-- through no list that grows with the backlog: jobs wait in `prioritized`; in `wait` are only jobs
-- that were put forward or run again at once, and what an older release has added.
--
-- KEYS  1 the job  2 wait  3 prioritized  4 delayed  5 active
-- ARGV  1 id of the job
-- Returns { 'gone' }, { 'first' }, { 'running' }, or { 'delayed', its score }.
local id = ARGV[1]
if redis.call('EXISTS', KEYS[1]) == 0 then return { 'gone' } end
if redis.call('LINDEX', KEYS[2], -1) == id then return { 'first' } end
local score = redis.call('ZSCORE', KEYS[4], id)
if score then return { 'delayed', score } end
if redis.call('LPOS', KEYS[5], id) then return { 'running' } end
if redis.call('ZREM', KEYS[3], id) == 1 or redis.call('LREM', KEYS[2], -1, id) == 1 then
  redis.call('RPUSH', KEYS[2], id)
  redis.call('HSET', KEYS[1], 'priority', 0)
  return { 'first' }
end
return { 'running' }
