-- Takes jobs that wait in a BullMQ queue for a worker that runs one already, as BullMQ's own script
-- takes one: each is in `active` and has a lock, so that it is taken back if the worker dies. Jobs
-- that need more (a worker that died, a parent, a series) stay for BullMQ, and so do all while the
-- queue is paused or limited.
--
-- KEYS  1 wait  2 active  3 meta
-- ARGV  1 prefix of the queue's jobs  2 token of the worker  3 lockMs  4 time, ms  5 most jobs
--       6 bytes that their data may have together; a job with more is taken alone
-- Returns { id, name, data, opts, timestamp, how often it was started } of each.
local PLAIN = 4
local prefix, token, lockMs, startedAt = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local most, mostBytes = tonumber(ARGV[5]), tonumber(ARGV[6])
local held = redis.call('HMGET', KEYS[3], 'paused', 'concurrency', 'max')
if held[1] or held[2] or held[3] then return {} end

local taken, bytes = {}, 0
while #taken < most do
  local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
  if not id then break end
  local key = prefix .. id
  local job = redis.call('HMGET', key, 'name', 'data', 'opts', 'timestamp',
    'atm', 'stc', 'defa', 'progress', 'parent', 'parentKey', 'rjk', 'ats')
  -- A job that has waited for another try was started before. A job whose worker died has `stc`.
  local starts = job[12] or '0'
  local isPlain = #starts < 10 and string.match(starts, '^%d+$') ~= nil
  for i = 1, 11 do
    if (i <= PLAIN) ~= (job[i] ~= false) then isPlain = false end
  end
  local size = #(job[2] or '')
  if not isPlain or (#taken > 0 and bytes + size > mostBytes) then
    redis.call('LMOVE', KEYS[2], KEYS[1], 'LEFT', 'RIGHT')
    break
  end
  redis.call('SET', key .. ':lock', token, 'PX', lockMs)
  redis.call('HSET', key, 'processedOn', startedAt, 'ats', starts + 1)
  bytes = bytes + size
  taken[#taken + 1] = { id, job[1], job[2], job[3], job[4], starts + 1 }
end
return taken
