-- Writes the state of the pacing if it is still the one that was read.
--
-- KEYS  1 pacing
-- ARGV  1 state that was read; '?' only reads  2 the new one
-- Returns { written 0 | 1, now, the state that was there }.
--- @include "../../ops/lua/now.lua"
local state = redis.call('GET', KEYS[1]) or ''
if state ~= ARGV[1] then return { 0, now, state } end
redis.call('SET', KEYS[1], ARGV[2])
return { 1, now, state }
