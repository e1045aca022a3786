-- Writes the circuit breaker (src/sync/breaker.ts), unless it has changed since it was read.
--
-- KEYS  1 outage
-- ARGV  1 the text that was read; '' none  2 the new one; '' none
-- Returns 1, or 0 when it has changed.
if (redis.call('HGET', KEYS[1], 'breaker') or '') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'breaker', ARGV[2]) end
return 1
