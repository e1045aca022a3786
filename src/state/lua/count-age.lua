-- Counts the age of the state up, and notes that the caller has met the new number. An emptied
-- Redis gets a new name for its age: a process that knows the former one learns from it that
-- everything is gone, whatever the number.
--
-- KEYS  1 age
-- ARGV  1 name of a new age  2 field of the caller  3 most callers that are remembered
-- Returns { name, number, the number that the caller had met before: '' none }.
redis.call('HSETNX', KEYS[1], 'name', ARGV[1])
local met = redis.call('HGET', KEYS[1], ARGV[2])
local number = redis.call('HINCRBY', KEYS[1], 'number', 1)
redis.call('HSET', KEYS[1], ARGV[2], number)
-- Processes that have ended leave their fields behind: the oldest field is deleted.
if not met and redis.call('HLEN', KEYS[1]) - 2 > tonumber(ARGV[3]) then
  local oldest, lowest = nil, number
  local flat = redis.call('HGETALL', KEYS[1])
  for i = 1, #flat, 2 do
    local at = flat[i] ~= 'name' and flat[i] ~= 'number' and tonumber(flat[i + 1])
    if at and at < lowest then oldest, lowest = flat[i], at end
  end
  if oldest then redis.call('HDEL', KEYS[1], oldest) end
end
return { redis.call('HGET', KEYS[1], 'name'), number, met or '' }
