-- Tells how long it is until the next turn: a change that has come meanwhile may take it earlier.
--
-- KEYS  1 pace  2 priorities
-- ARGV  1 intervalMs  2 early
-- Returns ms; 0: it has come.
--- @include "../../ops/lua/now.lua"
--- @include "turn.lua"
local turn = tonumber(redis.call('HGET', KEYS[1], 'turn') or 0)
local lowest = tonumber(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2])
return math.max(0, math.ceil(turnAt(turn, tonumber(ARGV[1]), tonumber(ARGV[2]), lowest) - now))
