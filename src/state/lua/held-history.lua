-- Include: the history of a record that has one step only, that of the event which waits, lies in
-- the staged hash (hold-step.lua), in pieces: Redis keeps it there in the room of its text.
local HISTORY_FIELDS = { 'hi', 'hi1', 'hi2', 'hi3' }

local function heldHistory(staged)
  local pieces, text = redis.pcall('HMGET', staged, unpack(HISTORY_FIELDS)), ''
  for _, piece in ipairs(pieces) do text = text .. (piece or '') end
  return text
end
