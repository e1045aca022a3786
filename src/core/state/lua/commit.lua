-- Carries out commands as one step, unless something that they rest on has changed since it was
-- read.
--
-- KEYS  the key of each check, then of each command
-- ARGV  1 how many checks there are
--       then of each check and each command: how many texts follow, the command, its arguments
--       after the key; a check ends with the reply that is expected ('': none)
-- Returns 1, or 0 when a check has failed: nothing was done then.
local at, calls = 2, 0

local function nextCall()
  local count = tonumber(ARGV[at])
  calls = calls + 1
  local call = { ARGV[at + 1], KEYS[calls], unpack(ARGV, at + 2, at + count) }
  at = at + count + 1
  return call
end

for _ = 1, tonumber(ARGV[1]) do
  local call = nextCall()
  local expected = table.remove(call)
  if tostring(redis.call(unpack(call)) or '') ~= expected then return 0 end
end
while at <= #ARGV do
  redis.call(unpack(nextCall()))
end
return 1
