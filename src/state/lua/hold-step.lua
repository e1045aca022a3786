-- Include, after note-step.lua and move-history.lua: keeps the first step of a record's history in
-- its staged hash. Returns whether it did.
local function holdStep(staged, history, keptMs, origin, body)
  if keptMs == '' or redis.call('EXISTS', history) == 1 then return false end
  local text = origin .. '\n' .. stepLine('E', 1, '', body)
  local fields = {}
  for i, name in ipairs(HISTORY_FIELDS) do
    local piece = string.sub(text, (i - 1) * 63 + 1, i * 63)
    if piece ~= '' then
      fields[#fields + 1] = name
      fields[#fields + 1] = piece
    end
  end
  if #text > 63 * #HISTORY_FIELDS then return false end
  redis.pcall('HSET', staged, unpack(fields))
  return true
end
