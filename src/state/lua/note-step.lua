-- Include: the history of a record (src/state/history.ts): one text, a line for each step.
--   O<source>\t<subject>                        of the events after it
--   <kind><time, hex ms>*<times>,<extra>\t<body>  a step; history-steps.ts knows their bodies
-- Nothing here may fail: a change never waits for its history. Needs `now`.
local HISTORY_STEPS, HISTORY_BYTES = 20, 850

-- The newest steps that have room, none older than `oldest`, after their origin.
local function newestSteps(text, oldest)
  local steps, kept, size, origin = 0, {}, 0, ''
  local lines = {}
  for line in string.gmatch(text, '[^\n]+') do lines[#lines + 1] = line end
  for i = #lines, 1, -1 do
    local line = lines[i]
    if string.sub(line, 1, 1) == 'O' then
      if steps < HISTORY_STEPS and size < HISTORY_BYTES then
        table.insert(kept, 1, line)
        size = size + #line + 1
      elseif origin == '' then
        origin = line
      end
    else
      local at = tonumber(string.match(line, '^%a(%x+)') or '', 16) or 0
      steps, size = steps + 1, size + #line + 1
      local tooMany = steps > HISTORY_STEPS or (size > HISTORY_BYTES and steps > 1)
      if tooMany or at < oldest then
        steps, size = HISTORY_STEPS, HISTORY_BYTES
      else
        table.insert(kept, 1, line)
      end
    end
  end
  if kept[1] and string.sub(kept[1], 1, 1) ~= 'O' and origin ~= '' then
    table.insert(kept, 1, origin)
  end
  return table.concat(kept, '\n') .. '\n'
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
  local head = kind .. string.format('%x', now) .. (times > 1 and '*' .. times or '')
  text = text .. head .. (extra ~= '' and ',' .. extra or '') .. '\t' .. body .. '\n'
  local _, count = string.gsub(text, '\n', '')
  local oldest = now - keptMs
  local first = string.match(text, '^O[^\n]*\n%a(%x+)') or string.match(text, '^%a(%x+)') or ''
  local isOld = (tonumber(first, 16) or 0) < oldest
  if #text > HISTORY_BYTES or count > HISTORY_STEPS or isOld then
    text = newestSteps(text, oldest)
  end
  redis.pcall('SET', key, text, 'PX', keptMs)
end
