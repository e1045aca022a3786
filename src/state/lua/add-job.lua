-- Include: adds a job as BullMQ does, by its own script.
--
-- KEYS  marker, meta, id, prioritized, delayed, completed, active, events and pc of the queue
-- ARGV  1 where the job belongs, and 3 its options, both packed by cmsgpack  2 its data
local function addPrioritizedJob(KEYS, ARGV) -- luacheck: no unused args
--- @bullmq "addPrioritizedJob-9"
end
