-- Drops a held termination, with the state that waits: the relation stays as the service has it.
--
-- KEYS  1 staged  2 terminations:held
-- ARGV  1 crmCode
-- Returns 1; 0 when it is not held any more.
--- @include "staged-fields.lua"
if not s.v or s.hv ~= s.v then return 0 end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
