-- Finds the records that fail again and again. Where many fail, each is tried again after hours
-- (retry-delay.ts), so records that were tried once count too. Forgets records that no longer wait:
-- a newer event may have ended their change without a request.
--
-- KEYS  1 retried  2 retried:details  3 unsynced:live  4 unsynced:bulk
-- ARGV  1 fewest tries of one of them  2 least age of each, ms
-- Returns { how many }, or { how many, most tries, details of that record }.
--- @include "../../ops/lua/now.lua"
local records, most, found = 0, nil, nil
local all = redis.call('ZREVRANGEBYSCORE', KEYS[1], '+inf', '-inf', 'WITHSCORES')
for i = 1, #all, 2 do
  local crmCode, tries = all[i], tonumber(all[i + 1])
  local details = redis.call('HGET', KEYS[2], crmCode)
  local waits = redis.call('ZSCORE', KEYS[3], crmCode) or redis.call('ZSCORE', KEYS[4], crmCode)
  if not details or not waits then
    -- Redis may accept no writes now; status must be readable all the same.
    redis.pcall('ZREM', KEYS[1], crmCode)
    redis.pcall('HDEL', KEYS[2], crmCode)
  elseif now - cjson.decode(details).since >= tonumber(ARGV[2]) then
    records = records + 1
    if not most and tries >= tonumber(ARGV[1]) then most, found = all[i + 1], details end
  end
end
if not most then return { '0' } end
return { tostring(records), most, found }
