-- Reads one BullMQ queue.
--
-- KEYS  1 meta  2 wait  3 prioritized  4 active  5 delayed  6 failed  7 paused  8 waiting-children
-- ARGV  1 prefix of the keys of its jobs
-- Returns { 1 when somebody has paused it, when the oldest unfinished job was added (ms; '' when
-- there is none), the limits that somebody has set (jobs at once, jobs in a time, that time in
-- ms; each
-- '' when not), how many of the jobs that are due next were tried three times or more, and how
-- many jobs are in each of KEYS 2 to 8 }.
local function count(key)
  return redis.call(redis.call('TYPE', key).ok == 'list' and 'LLEN' or 'ZCARD', key)
end
local oldest
local function first(id)
  local at = id and tonumber(redis.call('HGET', ARGV[1] .. id, 'timestamp') or nil)
  if at and (not oldest or at < oldest) then oldest = at end
end
for _, list in ipairs({ KEYS[2], KEYS[4], KEYS[7] }) do
  first(redis.call('LINDEX', list, -1))
end
for _, set in ipairs({ KEYS[3], KEYS[8] }) do
  first(redis.call('ZRANGE', set, 0, 0)[1])
end
-- The job that is due next need not be the oldest: a job that was tried often waits longer.
local failing = 0
for _, id in ipairs(redis.call('ZRANGE', KEYS[5], 0, 99)) do
  first(id)
  local starts = tonumber(redis.call('HGET', ARGV[1] .. id, 'ats') or nil)
  if starts and starts > 2 then failing = failing + 1 end
end
local limits = redis.call('HMGET', KEYS[1], 'concurrency', 'max', 'duration')
return {
  redis.call('HEXISTS', KEYS[1], 'paused'), oldest and string.format('%d', oldest) or '',
  limits[1] or '', limits[2] or '', limits[3] or '', failing,
  count(KEYS[2]), count(KEYS[3]), count(KEYS[4]), count(KEYS[5]), count(KEYS[6]), count(KEYS[7]),
  count(KEYS[8]),
}
