-- Include: the part of a stored ledger row that a GET can verify; verifications.ts makes the same.
local function proofOfRow(text)
  local row = cjson.decode(text)
  return row.e .. '|' .. (row.f or '') .. '|' .. (row.x or 0)
end
