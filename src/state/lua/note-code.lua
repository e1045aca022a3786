-- Include: which crmCodes the record of a CRM led to (src/state/history.ts), newest first.
-- `origin`: as in note-step.lua. A crmCode that is the record's own id is not written: its history
-- says the same.
local function noteCode(key, keptMs, newest, origin)
  if keptMs == '' then return end
  local text = redis.pcall('GET', key)
  if type(text) == 'table' then return end
  if not text and string.match(origin, '\t[^/]*/(.*)$') == newest then return end
  if text == newest then
    redis.pcall('PEXPIRE', key, keptMs)
    return
  end
  local codes = { newest }
  for code in string.gmatch(text or '', '[^\n]+') do
    if code ~= newest and #codes < 3 then codes[#codes + 1] = code end
  end
  redis.pcall('SET', key, table.concat(codes, '\n'), 'PX', keptMs)
end
