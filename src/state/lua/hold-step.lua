-- Include, after note-step.lua and move-history.lua: the first step of a record's history, for its
-- staged hash. Adds it to a list of fields to set, and returns whether it did.
local function addHeldStep(fields, history, keptMs, origin, body)
  if keptMs == '' or redis.call('EXISTS', history) == 1 then return false end
  local text = origin .. '\n' .. stepLine('E', 1, '', body)
  if #text > 63 * #HISTORY_FIELDS then return false end
  for i = 1, math.ceil(#text / 63) do
    fields[#fields + 1] = HISTORY_FIELDS[i]
    fields[#fields + 1] = string.sub(text, (i - 1) * 63 + 1, i * 63)
  end
  return true
end
