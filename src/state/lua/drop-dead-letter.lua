-- Deletes a dead letter, if it is still the one that the caller means. Counts it out.
--
-- KEYS  1 dead-letters
-- ARGV  1 id  2 'any' | 'raw' | 'order'  3 the stored value, or an event order
--   any    whatever it is
--   raw    the letter has not changed since it was read
--   order  the letter is not newer than an event of this order
-- Returns 1 when it was deleted, else 0.
--- @include "older.lua"
--- @include "count-out.lua"
local kept = redis.call('HGET', KEYS[1], ARGV[1])
if not kept then return 0 end
if ARGV[2] == 'raw' and kept ~= ARGV[3] then return 0 end
if ARGV[2] == 'order' and older(ARGV[3], cjson.decode(kept).order) then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
countOut(KEYS[1], kept)
return 1
