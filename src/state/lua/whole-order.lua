-- Include: the order of an event (src/event/event-order.ts), which lies in a staged hash in half
-- the room (short-order.lua). No whole order has a tilde before its last digits: a tab is there.
local NO_SEQUENCE, NUMBER_DIGITS = '000000Z\t\t', 16

local function wholeOrder(short)
  local time, number = string.match(short, '^(.*)~(%d+)$')
  if not time then return short end
  return time .. NO_SEQUENCE .. string.rep('0', NUMBER_DIGITS - #number) .. number
end
