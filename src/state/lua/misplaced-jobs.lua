-- Finds the records that have no pointer job, those whose job has ended and was kept, by somebody's
-- tool, and those whose job is in the lane bulk.
--
-- KEYS  the job of each record
-- ARGV  1 the priority of live jobs, then the crmCodes as in KEYS
-- Returns { crmCodes without a job, with a job that has ended, with a job of the lane bulk }.
local without, ended, bulk = {}, {}, {}
for i, key in ipairs(KEYS) do
  local priority, endedAt = unpack(redis.call('HMGET', key, 'priority', 'finishedOn'))
  if not priority then without[#without + 1] = ARGV[i + 1]
  elseif endedAt then ended[#ended + 1] = ARGV[i + 1]
  elseif tonumber(priority) > tonumber(ARGV[1]) then bulk[#bulk + 1] = ARGV[i + 1] end
end
return { without, ended, bulk }
