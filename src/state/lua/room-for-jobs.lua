-- Include: how many more pointer jobs may wait in each lane (pointer-queue.ts).
local function roomForJobs(prioritized, livePriority, jobsAhead)
  local firstBulk = string.format('%d', (livePriority + 1) * 2 ^ 32)
  return {
    live = jobsAhead - redis.call('ZCOUNT', prioritized, '-inf', '(' .. firstBulk),
    bulk = jobsAhead - redis.call('ZCOUNT', prioritized, firstBulk, '+inf'),
  }
end
