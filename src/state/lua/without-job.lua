-- Finds the records that have no pointer job.
--
-- KEYS  BullMQ's deduplication key of each record
-- ARGV  1 prefix of the job keys, then the crmCodes in the order of KEYS
-- Returns the crmCodes without a job.
local missing = {}
for i, key in ipairs(KEYS) do
  local id = redis.call('GET', key)
  if not id or redis.call('EXISTS', ARGV[1] .. id) == 0 then missing[#missing + 1] = ARGV[i + 1] end
end
return missing
