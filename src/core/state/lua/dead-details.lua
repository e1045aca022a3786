-- Lists everything but the events of some dead letters: the events are the most of it, and sealed.
--
-- KEYS  1 dead-letters
-- ARGV  1 cursor of the scan  2 how many letters to look at
-- Returns the next cursor ('0': done), the bytes of the letters that were looked at, then of each
-- one its details (JSON), when it was first stored (ms), and how often.
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local found, bytes = { page[1], 0 }, 0
for i = 2, #page[2], 2 do
  local letter = cjson.decode(page[2][i])
  bytes = bytes + #page[2][i]
  found[#found + 1] = letter.details
  found[#found + 1] = string.format('%.0f', letter.first)
  found[#found + 1] = letter.times
end
found[2] = bytes
return found
