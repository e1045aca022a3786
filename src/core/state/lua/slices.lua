-- Reads counts that are kept in slices of time.
--
-- KEYS  1 name of a slice without its number
-- ARGV  1 length of a slice, ms  2 how many to read
-- Returns { number of a slice, { name, count, … }, … }, oldest first, without empty ones.
--- @include "../../../base/lua/now.lua"
local newest = math.floor(now / tonumber(ARGV[1]))
local slices = {}
for slice = newest - tonumber(ARGV[2]) + 1, newest do
  local counts = redis.call('HGETALL', KEYS[1] .. string.format('%d', slice))
  if #counts > 0 then
    slices[#slices + 1] = slice
    slices[#slices + 1] = counts
  end
end
return slices
