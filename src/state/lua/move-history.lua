-- Include: moves the history that a staged hash holds to its own key, before a second step is noted
-- or the hash is deleted. Like noteStep it never fails.
--- @include "held-history.lua"
local function moveHistory(staged, history, keptMs)
  local text = keptMs ~= '' and heldHistory(staged) or ''
  if text == '' then return end
  -- An older program, which does not look into the hash, may have begun a history there.
  local later = redis.pcall('GET', history)
  if type(later) ~= 'table' then
    redis.pcall('SET', history, text .. (later or ''), 'PX', keptMs)
  end
  redis.pcall('HDEL', staged, unpack(HISTORY_FIELDS))
end
