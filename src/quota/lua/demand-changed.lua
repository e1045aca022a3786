-- Counts staged changes that stage.lua did not count.
--
-- KEYS and ARGV: as count-changes.lua takes them.
-- Returns 0.
--- @include "../../ops/lua/now.lua"
--- @include "count-changes.lua"
countChanges(KEYS, ARGV)
return 0
