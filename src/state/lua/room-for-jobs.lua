-- Include: how many more pointer jobs may wait in each lane (pointer-job.ts). A bulk record has its
-- job at once only where few wait: missing-jobs.ts adds the jobs of other records in their order,
-- so that no newcomer overtakes them.
local function roomForJobs(prioritized, unsyncedBulk, livePriority, jobsAhead, fewJobs)
  local firstBulk = string.format('%d', (livePriority + 1) * 2 ^ 32)
  return {
    live = jobsAhead - redis.call('ZCOUNT', prioritized, '-inf', '(' .. firstBulk),
    bulk = fewJobs - redis.call('ZCARD', unsyncedBulk),
  }
end
