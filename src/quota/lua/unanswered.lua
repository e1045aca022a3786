-- Notes that a request got no reply: the service may count it later than our own log does.
--
-- KEYS  1 pace
-- Returns 0.
--- @include "../../ops/lua/now.lua"
redis.call('HSET', KEYS[1], 'unanswered', now)
return 0
