-- Appends one step to the history of a record, outside of a write that changes the record.
--
-- KEYS  1 history; of an event also  2 objects  3 to which crmCodes its record led
-- ARGV  1 for how long it is kept, ms  2 origin  3 kind  4 extra  5 body (note-step.lua)
--       of an event also  6 object  7 crmCode ('': not known)
-- Returns nothing.
--- @include "../../ops/lua/now.lua"
--- @include "note-step.lua"
--- @include "note-code.lua"
noteStep(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if KEYS[2] then redis.pcall('SADD', KEYS[2], ARGV[6]) end
if KEYS[3] and ARGV[7] ~= '' then noteCode(KEYS[3], ARGV[1], ARGV[7], ARGV[2]) end
