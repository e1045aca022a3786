-- Include, after whole-order.lua: shortens an order. Most events have no sequence and a time in
-- milliseconds; the order of others stays as it is.
local function shortOrder(order)
  local time, number = string.match(order, '^(.*)' .. NO_SEQUENCE .. '(%d+)$')
  if not time or #number ~= NUMBER_DIGITS then return order end
  return time .. '~' .. string.match(number, '^0*(%d+)$')
end
