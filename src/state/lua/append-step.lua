-- Appends one step to the history of a record, outside of the scripts that note their own.
--
-- KEYS  1 history  2 staged, of a relation
-- ARGV  1 for how long it is kept, ms  2 origin  3 kind  4 extra  5 body (note-step.lua)
-- Returns nothing.
--- @include "../../ops/lua/now.lua"
--- @include "note-step.lua"
--- @include "move-history.lua"
if KEYS[2] then moveHistory(KEYS[2], KEYS[1], ARGV[1]) end
noteStep(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
