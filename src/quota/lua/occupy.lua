-- Takes the slots of the hour that another program has spent: the service counts more requests
-- than we do.
--
-- KEYS  1 log  2 slots of the hour
-- ARGV  1 name of these slots  2 epoch of the log, 3 slots taken and 4 slots in use, all when the
--       permit was given  5 requests that the service says are left  6 for how long, ms
-- Returns how many slots were taken: `<name>:1`, `<name>:2`, ...
--- @include "../../ops/lua/now.lua"
local log = redis.call('HMGET', KEYS[1], 'epoch', 'taken', 'hour')
local since = (tonumber(log[2]) or 0) - ARGV[3]
-- Redis forgot requests, and not all processes have written theirs again: our count is too low.
if log[1] ~= ARGV[2] or since < 0 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
-- Every request of ours that the service may have counted is in this number.
local ours = ARGV[4] + since
local free = log[3] - redis.call('ZCARD', KEYS[2])
local foreign = math.max(0, math.min(log[3] - ours - ARGV[5], free))
for n = 1, foreign do redis.call('ZADD', KEYS[2], now + ARGV[6], ARGV[1] .. ':' .. n) end
redis.call('HINCRBY', KEYS[1], 'taken', foreign)
return foreign
