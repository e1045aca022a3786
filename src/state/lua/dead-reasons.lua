-- Lists the reasons of some dead letters, so that no dead letter must leave Redis to be counted.
--
-- KEYS  1 dead-letters
-- ARGV  1 cursor of the scan
-- Returns the next cursor ('0': done), then the reason of each dead letter of this page.
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', 500)
local found = { page[1] }
for i = 2, #page[2], 2 do
  found[#found + 1] = cjson.decode(cjson.decode(page[2][i]).details).reason
end
return found
