-- Takes a step of Redis' own clock out of the shared clock, unless another process has done so.
--
-- KEYS  1 clock (fields: see read-clock.lua)
-- ARGV  1 offset that the caller has read  2 step, ms
--       3 if the offset differs by more than this, ms, another process has corrected it
-- Returns 1 when the caller has corrected it, else 0.
local clock = redis.call('TIME')
local own = clock[1] * 1000 + math.floor(clock[2] / 1000)
local offset = tonumber(redis.call('HGET', KEYS[1], 'offset')) or 0
if math.abs(offset - ARGV[1]) > tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], 'offset', offset - ARGV[2], 'at', own, 'confirmed', own)
return 1
