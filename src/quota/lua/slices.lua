-- Include: the counts of changes in slices of time. They are a ring of words in the table of
-- gaps.lua: the slice's number, modulo 2^16, and its count, below 2^16.
local SLICE_NUMBERS = 2 ^ 16

local function slotOfSlice(slice) return '#' .. (8004 + slice % 16) end

local function countOfSlice(word, slice)
  if math.floor(word / SLICE_NUMBERS) ~= slice % SLICE_NUMBERS then return 0 end
  return word % SLICE_NUMBERS
end
