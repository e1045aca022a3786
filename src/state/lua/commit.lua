-- Carries out commands as one step, unless something that they rest on has changed since it was
-- read.
--
-- KEYS  the key of each check, then of each command
-- ARGV  1 how many checks there are  2 when the steps of a history are noted, ms ('': now)
--       then of each check and each command: how many texts follow, the command, its arguments
--       after the key; a check ends with the reply that is expected ('': none)
-- Two commands are not Redis' own: NOTE and CODE write the history of a record (note-step.lua,
-- note-code.lua).
-- Returns 1, or 0 when a check has failed: nothing was done then.
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
--- @include "note-step.lua"
--- @include "note-code.lua"
local at, calls = 3, 0

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
  local call = nextCall()
  if call[1] == 'NOTE' then noteStep(unpack(call, 2))
  elseif call[1] == 'CODE' then noteCode(unpack(call, 2))
  else redis.call(unpack(call)) end
end
return 1
