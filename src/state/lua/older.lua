-- Include: whether event order `a` is older than `b`, compared byte by byte. Lua's own `<` compares
-- by the locale that the server was started with.
local function older(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
