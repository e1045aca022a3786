-- Learns from a reply (not a 429) while bursts are unproven. Our bucket is counted by replies, so
-- it holds less than the service's own one, by at most what flows in while a request is under way.
-- A request that is accepted although even with that our bucket is empty, by more than the margin,
-- proves that bursts are allowed.
--
-- KEYS  1 pace  2 in-flight
-- ARGV  1 permitId  2 steadyMs  3 burst  4 margin, tokens  5 for how long a proof counts, ms
--       6 '1': the request was accepted  7 time from permit to reply, ms
-- Returns 1 when this reply proved it, else 0.
local steadyMs, burst = tonumber(ARGV[2]), tonumber(ARGV[3])
--- @include "../../ops/lua/now.lua"
--- @include "pace.lua"
--- @include "bucket-level.lua"
redis.call('ZREM', KEYS[2], ARGV[1])
local trip = math.max(pace.trip or 0, tonumber(ARGV[7]))
redis.call('HSET', KEYS[1], 'level', level - 1, 'at', now, 'failures', 0, 'trip', trip)
-- While a slow reply is under way the bucket fills: what counts is how full it was at the permit.
local atPermit = level - ARGV[7] / steadyMs
if ARGV[6] ~= '1' or atPermit >= 2 or (pace.proven or 0) > now then return 0 end
redis.call('HINCRBY', KEYS[1], 'eased', 1)
if level + trip / steadyMs > -ARGV[4] then return 0 end
redis.call('HSET', KEYS[1], 'proven', now + ARGV[5])
return 1
