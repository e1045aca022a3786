-- Finds the records that have no pointer job, and those whose job is in the lane bulk. A job that
-- has ended and was kept, by somebody's tool, is none.
--
-- KEYS  the job of each record
-- ARGV  1 the priority of live jobs, then the crmCodes as in KEYS
-- Returns { the crmCodes without a job, those with a job of the lane bulk }.
local without, bulk = {}, {}
for i, key in ipairs(KEYS) do
  local priority, ended = unpack(redis.call('HMGET', key, 'priority', 'finishedOn'))
  if not priority or ended then without[#without + 1] = ARGV[i + 1]
  elseif tonumber(priority) > tonumber(ARGV[1]) then bulk[#bulk + 1] = ARGV[i + 1] end
end
return { without, bulk }
