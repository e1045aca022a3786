-- Include: moves the history that a staged hash holds to the key of its own, before a second step,
-- or before the hash goes. Like noteStep it never fails.
--- @include "held-history.lua"
local function moveHistory(staged, history, keptMs)
  local text = keptMs ~= '' and heldHistory(staged) or ''
  if text == '' then return end
  -- A program that does not know of it may have begun one.
  local later = redis.pcall('GET', history)
  if type(later) ~= 'table' then
    redis.pcall('SET', history, text .. (later or ''), 'PX', keptMs)
  end
  redis.pcall('HDEL', staged, unpack(HISTORY_FIELDS))
end
