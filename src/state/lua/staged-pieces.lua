-- Include, after staged-fields.lua: writes p and ev in pieces. A value that would need more than
-- MOST_PIECES lies in one piece.
local PIECE_BYTES, MOST_PIECES = 63, 32
local pieceCount = { p = 0, ev = 0 }
for i = 1, #flat, 2 do
  local name = string.match(flat[i], '^(%l+)%d*$')
  if pieceCount[name] then pieceCount[name] = pieceCount[name] + 1 end
end

-- Appends the pieces of a new value of p or ev to a list of fields to set, and deletes the pieces
-- of the old value beyond these. '' deletes the value.
local function addPieces(fields, name, value)
  local size = #value > PIECE_BYTES * MOST_PIECES and #value or PIECE_BYTES
  local count = math.ceil(#value / size)
  for i = 0, math.max(count, pieceCount[name]) - 1 do
    local field = i == 0 and name or name .. i
    if i < count then
      fields[#fields + 1] = field
      fields[#fields + 1] = string.sub(value, i * size + 1, (i + 1) * size)
    else
      redis.call('HDEL', KEYS[1], field)
    end
  end
end
