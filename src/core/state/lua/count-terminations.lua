-- Counts the terminations of the window.
--
-- KEYS  1 terminations
-- ARGV  1 window, ms
-- Returns how many.
--- @include "../../../base/lua/now.lua"
return redis.call('ZCOUNT', KEYS[1], '(' .. (now - tonumber(ARGV[1])), '+inf')
