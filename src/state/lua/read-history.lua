-- Reads the history of a relation, from either place in one step: it may be moved meanwhile.
--
-- KEYS  1 history  2 staged
-- ARGV  1 for how long it is kept, ms
-- Returns its text.
--- @include "../../ops/lua/now.lua"
--- @include "held-history.lua"
local held = heldHistory(KEYS[2])
-- What lies in the staged hash does not expire there.
local at = tonumber(string.match(held, '\nE(%x+)') or '', 16) or 0
if at <= now - ARGV[1] then held = '' end
return held .. (redis.call('GET', KEYS[1]) or '')
