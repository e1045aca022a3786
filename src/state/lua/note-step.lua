-- Include: the history of a record (src/state/history.ts): one text, a line for each step.
--   O<source>\t<subject>                        of the events after it
--   <kind><time, hex ms>*<times>,<extra>\t<body>  a step; history-steps.ts knows their bodies
-- Nothing here may fail: a change never waits for its history. Needs `now`.
local HISTORY_STEPS, HISTORY_BYTES = 20, 850

-- Cuts the first steps off while there are too many, they are too long together, or they are older
-- than `oldest`. The newest step stays, and the first one that is left keeps its origin.
local function cutFront(text, steps, oldest)
  local from, origin = 1, ''
  while true do
    local stop = string.find(text, '\n', from, true)
    if not stop or stop == #text then break end
    if string.sub(text, from, from) == 'O' then
      origin = string.sub(text, from, stop)
    else
      local at = tonumber(string.match(text, '^%a(%x+)', from) or '', 16) or 0
      local size = #origin + #text - from + 1
      if steps <= HISTORY_STEPS and size <= HISTORY_BYTES and at >= oldest then break end
      steps = steps - 1
    end
    from = stop + 1
  end
  text = string.sub(text, from)
  return string.sub(text, 1, 1) == 'O' and text or origin .. text
end

local function stepLine(kind, times, extra, body)
  local head = kind .. string.format('%x', now) .. (times > 1 and '*' .. times or '')
  return head .. (extra ~= '' and ',' .. extra or '') .. '\t' .. body .. '\n'
end

-- Appends one step. `origin`: the line of its event ('': no event). `keptMs`: '' keeps no history.
local function noteStep(key, keptMs, origin, kind, extra, body)
  if keptMs == '' then return end
  local text = redis.pcall('GET', key)
  if type(text) == 'table' then return end
  text = text or ''
  if origin ~= '' and string.match('\n' .. text, '^.*\n(O[^\n]*)') ~= origin then
    text = text .. origin .. '\n'
  end
  local times = 1
  local last = string.match('\n' .. text, '^.*\n([^\n]*)\n$') or ''
  local before, was = string.match(last, '^' .. kind .. '%x+%*?(%d*)[^\t]*\t(.*)$')
  if was == body then
    times = (tonumber(before) or 1) + 1
    text = string.sub(text, 1, #text - #last - 1)
  end
  text = text .. stepLine(kind, times, extra, body)
  local _, steps = string.gsub(text, '\n', '\n')
  local _, origins = string.gsub('\n' .. text, '\nO', '')
  text = cutFront(text, steps - origins, now - keptMs)
  redis.pcall('SET', key, text, 'PX', keptMs)
end
