-- Notes the newest line of a chain of the audit trail.
--
-- KEYS  1 audit:heads
-- ARGV  1 chain  2 number of the line  3 the head, as JSON
-- Returns 1, or 0 when a newer line is known.
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known and cjson.decode(known).seq > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
