-- Notes an update of a relation, and counts which fields updates have emptied within the window. A
-- relation counts once, by its last update.
--
-- KEYS  1 updates
-- ARGV  1 window, ms; absent when only counted: 2 name of the relation
--       3 letters of the fields that had a value  4 letters of those that it empties
-- Returns for each field that was emptied: its letter, how many relations had a value in it, and
-- how many have lost it. Nothing after an update that empties none.
--- @include "../../../base/lua/now.lua"
local since = now - tonumber(ARGV[1])
if ARGV[2] then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', since)
  redis.call('ZADD', KEYS[1], now, ARGV[4] .. ' ' .. ARGV[3] .. ' ' .. ARGV[2])
  if ARGV[4] == '' then return {} end
end

local updates = {}
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], '(' .. since, '+inf', 'BYSCORE')) do
  local emptied, filled, name = member:match('^(%w*) (%w*) (.*)$')
  updates[name] = { emptied = emptied, filled = filled }
end
local had, lost = {}, {}
for _, update in pairs(updates) do
  for letter in update.filled:gmatch('.') do had[letter] = (had[letter] or 0) + 1 end
  for letter in update.emptied:gmatch('.') do lost[letter] = (lost[letter] or 0) + 1 end
end
local counts = {}
for letter, count in pairs(lost) do
  for _, part in ipairs({ letter, had[letter], count }) do counts[#counts + 1] = part end
end
return counts
