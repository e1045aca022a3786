-- While somebody has paused a BullMQ queue, moves the jobs that wait to where BullMQ 5 and older
-- keep them: their `resume` puts that list in the place of `wait`, and what lay there would be
-- lost. The `resume` of BullMQ 6 takes both.
--
-- KEYS  1 meta  2 wait  3 paused
-- ARGV  1 most jobs
-- Returns nothing.
if redis.call('HEXISTS', KEYS[1], 'paused') == 0 then return end
if redis.call('EXISTS', KEYS[2]) == 1 and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('RENAME', KEYS[2], KEYS[3])
end
for _ = 1, tonumber(ARGV[1]) do
  if not redis.call('RPOPLPUSH', KEYS[2], KEYS[3]) then return end
end
