-- Include, after whole-order.lua: shortens an order. Most events have no sequence and a time in
-- milliseconds; the order of others stays as it is.
local function shortOrder(order)
  local at = string.find(order, NO_SEQUENCE, 1, true)
  local number = at and string.match(order, '^%d+$', at + #NO_SEQUENCE)
  if not number or #number ~= NUMBER_DIGITS then return order end
  return string.sub(order, 1, at - 1) .. '~' .. string.match(number, '^0*(%d+)$')
end
