-- Adds the pointer jobs of records whose change waits, for each that has none.
--
-- KEYS  1 unsynced:live  2 unsynced:bulk
--       3...11 of the queue of pointer jobs, as add-job.lua takes them
--       and for each record: its job  staged
-- ARGV  1 prefix of the keys of the queue  2 priority of a live job  3 of a bulk job
--       4 channel that tells of new jobs  5 most jobs to add
--       6 a bulk record gets none while so many wait
--       and for each record: crmCode  id of its job
-- Returns how many were added.
--- @include "../../ops/lua/now.lua"
--- @include "add-job.lua"
local SHARED_KEYS, SHARED_ARGS = 11, 6
local queueKeys = { unpack(KEYS, 3, SHARED_KEYS) }
local added, urgent = 0, false
local bulkMay = redis.call('ZCARD', KEYS[2]) < tonumber(ARGV[6])
for n = 1, (#ARGV - SHARED_ARGS) / 2 do
  if added == tonumber(ARGV[5]) then break end
  local crmCode, id = ARGV[SHARED_ARGS + 2 * n - 1], ARGV[SHARED_ARGS + 2 * n]
  local job, staged = KEYS[SHARED_KEYS + 2 * n - 1], KEYS[SHARED_KEYS + 2 * n]
  local isMissing = redis.call('EXISTS', job) == 0
  local isLive = isMissing and redis.call('ZSCORE', KEYS[1], crmCode)
  if isLive or (isMissing and bulkMay and redis.call('ZSCORE', KEYS[2], crmCode)) then
    local trace = redis.call('HGET', staged, 'tr') or ''
    addPointer(queueKeys, ARGV[1], id, crmCode, isLive and ARGV[2] or ARGV[3], trace)
    added, urgent = added + 1, urgent or isLive
  end
end
if added > 0 then redis.call('PUBLISH', ARGV[4], urgent and 'live' or 'bulk') end
return added
