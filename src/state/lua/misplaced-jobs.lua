-- Finds the records that have no pointer job, and those whose job is in the lane bulk.
--
-- KEYS  BullMQ's deduplication key of each record
-- ARGV  1 prefix of the job keys  2 the priority of live jobs, then the crmCodes as in KEYS
-- Returns { the crmCodes without a job, those with a job of the lane bulk }.
local without, bulk = {}, {}
for i, key in ipairs(KEYS) do
  local id = redis.call('GET', key)
  local priority = id and redis.call('HGET', ARGV[1] .. id, 'priority')
  if not priority then without[#without + 1] = ARGV[i + 2]
  elseif tonumber(priority) > tonumber(ARGV[2]) then bulk[#bulk + 1] = ARGV[i + 2] end
end
return { without, bulk }
