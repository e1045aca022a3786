-- Decides whether one more relation may be terminated without a person's approval. A relation
-- counts once, however often it is asked for.
--
-- KEYS  1 terminations
-- ARGV  1 crmCode  2 limit  3 window, ms  4 '1': it is sent now, and counts
-- Returns 1 when it may, else 0.
--- @include "../../../base/lua/now.lua"
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[3]))
local counts = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not counts and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
if ARGV[4] == '1' then redis.call('ZADD', KEYS[1], now, ARGV[1]) end
return 1
