-- Appends one step to the history of a record, outside of a write that changes the record.
--
-- KEYS  1 history
-- ARGV  1 for how long it is kept, ms  2 origin  3 kind  4 extra  5 body (note-step.lua)
-- Returns nothing.
--- @include "../../ops/lua/now.lua"
--- @include "note-step.lua"
noteStep(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
