-- Reads the shared clock. After a step of Redis' own clock, the shared clock approaches it again,
-- so slowly that no lease of the quota ends early by more than its margin.
--
-- KEYS  1 clock: hash, all by Redis' own clock, ms
--         offset     shared clock minus Redis' own; absent: 0
--         at         when `offset` was written
--         confirmed  when a process found the shared clock where it expected it, or corrected it
-- ARGV  1 part of the time that passes by which it approaches
--       2 least time between two approaches, and 3 most time that one of them counts, ms
--       4 where the caller expects the shared clock, ms; '': it does not know
--       5 by how much it may be wrong, ms
-- Returns { Redis' own clock: seconds, microseconds; offset, confirmed }.
local clock = redis.call('TIME')
local own = clock[1] * 1000 + math.floor(clock[2] / 1000)
local kept = redis.call('HMGET', KEYS[1], 'offset', 'at', 'confirmed')
local offset = tonumber(kept[1]) or 0
if offset ~= 0 then
  local passed = own - kept[2]
  if passed < 0 or passed >= tonumber(ARGV[2]) then
    local by = math.floor(math.min(math.max(passed, 0), tonumber(ARGV[3])) * ARGV[1])
    offset = offset > 0 and math.max(offset - by, 0) or math.min(offset + by, 0)
    redis.call('HSET', KEYS[1], 'offset', offset, 'at', own)
  end
end
local expected = tonumber(ARGV[4])
if expected and math.abs(own + offset - expected) <= tonumber(ARGV[5]) then
  redis.call('HSET', KEYS[1], 'confirmed', own)
end
return { clock[1], clock[2], offset, kept[3] or '' }
