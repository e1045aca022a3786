-- Include: a history of one step only, that of the event which waits, lies in pieces in the staged
-- hash (hold-step.lua): a key of its own would need more memory than the text.
local HISTORY_FIELDS = { 'hi', 'hi1', 'hi2', 'hi3' }

local function heldHistory(staged)
  local pieces, text = redis.pcall('HMGET', staged, unpack(HISTORY_FIELDS)), ''
  for _, piece in ipairs(pieces) do text = text .. (piece or '') end
  return text
end
