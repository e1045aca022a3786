-- Replaces one value of a staged hash, unless it was changed since the caller read it.
--
-- KEYS  1 staged
-- ARGV  1 field  2 what the caller read  3 new value
-- Returns 1 when it is written, else 0.
--- @include "staged-fields.lua"
--- @include "staged-pieces.lua"
local field, before, after = ARGV[1], ARGV[2], ARGV[3]
if s[field] ~= before then return 0 end
local fields = {}
if pieceCount[field] then addPieces(fields, field, after) else fields = { field, after } end
redis.call('HSET', KEYS[1], unpack(fields))
return 1
