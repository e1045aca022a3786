-- Adds the pointer job of a record whose change waits, if it has none.
--
-- KEYS  1 the job  2 unsynced:live  3 unsynced:bulk  4 staged
--       5...13 of the queue of pointer jobs, as add-job.lua takes them
-- ARGV  1 crmCode  2 id of the job  3 prefix of the keys of the queue  4 priority of a live job
--       5 of a bulk job  6 channel that tells of new jobs
-- Returns 1 when it was added, else 0.
--- @include "../../ops/lua/now.lua"
--- @include "add-job.lua"
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local isLive = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not isLive and not redis.call('ZSCORE', KEYS[3], ARGV[1]) then return 0 end
local priority, trace = isLive and ARGV[4] or ARGV[5], redis.call('HGET', KEYS[4], 'tr') or ''
addPointer({ unpack(KEYS, 5, 13) }, ARGV[3], ARGV[2], ARGV[1], priority, trace)
redis.call('PUBLISH', ARGV[6], isLive and 'live' or 'bulk')
return 1
