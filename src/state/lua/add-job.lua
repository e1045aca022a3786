-- Include: adds the pointer job of a record as BullMQ does, by its own script. A record that has a
-- job gets no second one.
--
-- KEYS  marker, meta, id, prioritized, delayed, completed, active, events and pc of the queue
-- ARGV  1 where the job belongs, packed by cmsgpack  2 its data  3 its options, packed
local function addPrioritizedJob(KEYS, ARGV) -- luacheck: no unused args
--- @bullmq "addPrioritizedJob-9"
end

local function addPointer(keys, prefix, id, crmCode, priority, trace)
  addPrioritizedJob(keys, {
    cmsgpack.pack({ prefix, id, 'sync', now }),
    cjson.encode({ crmCode = crmCode }),
    cmsgpack.pack({ priority = tonumber(priority), tm = trace ~= '' and trace or nil }),
  })
end
