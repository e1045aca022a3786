-- Ends jobs that take-along.lua has taken, as BullMQ's own script completes one that is not kept.
--
-- KEYS  1 active  2 stalled  3 events  4 meta
-- ARGV  1 prefix of the queue's jobs  2 token of the worker, then the ids
-- Returns the ids that BullMQ must end: another worker has taken the job over, or a job of the same
-- deduplication id follows it.
local prefix, token = ARGV[1], ARGV[2]
local left, ended = {}, {}
redis.call('XTRIM', KEYS[3], 'MAXLEN', '~',
  redis.call('HGET', KEYS[4], 'opts.maxLenEvents') or 10000)
for i = 3, #ARGV do
  local id = ARGV[i]
  local key = prefix .. id
  local once = redis.call('HGET', key, 'deid')
  local onceKey = once and prefix .. 'de:' .. once
  if redis.call('GET', key .. ':lock') ~= token
    or (once and redis.call('EXISTS', prefix .. 'dn:' .. once) == 1) then
    left[#left + 1] = id
  else
    -- The oldest are last.
    redis.call('LREM', KEYS[1], -1, id)
    -- A deduplication key with an expiry lasts for that time, not for as long as its job.
    if once and redis.call('GET', onceKey) == id and redis.call('PTTL', onceKey) == -1 then
      redis.call('DEL', onceKey)
    end
    redis.call('DEL', key, key .. ':lock', key .. ':logs', key .. ':dependencies',
      key .. ':processed', key .. ':failed', key .. ':unsuccessful')
    redis.call('XADD', KEYS[3], '*', 'event', 'completed', 'jobId', id,
      'returnvalue', 'null', 'prev', 'active')
    ended[#ended + 1] = id
  end
end
if #ended > 0 then redis.call('SREM', KEYS[2], unpack(ended)) end
return left
