-- Puts off the end of a lease that its process still needs.
--
-- KEYS  1 the log's sorted set lease -> when it ends by itself, ms
-- ARGV  1 how long the lease lasts from now, ms  2 lease
-- Returns 0.
--- @include "../../ops/lua/now.lua"
redis.call('ZADD', KEYS[1], 'XX', now + ARGV[1], ARGV[2])
return 0
