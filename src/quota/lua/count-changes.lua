-- Include: counts staged changes of live records, and moves their records forward in the order of
-- service, as src/quota/rank.ts says. A record that waits for a retry is served at once: its new
-- state has not failed. Needs `now`.
--
-- KEYS  1 priorities  2 postponed  3 ranks of the postponed  4 table of what was learnt
-- ARGV  1 sliceMs  2 hourMs  3... crmCode and slot ('#<number>') of each change
local function countChanges(KEYS, ARGV)
  local hourMs = tonumber(ARGV[2])
--- @include "postponed.lua"
--- @include "gaps.lua"
--- @include "slices.lua"
  local slice = math.floor(now / ARGV[1])
  local sliceSlot = slotOfSlice(slice)
  local get = {
    'BITFIELD_RO', KEYS[4], 'GET', 'u32', '#8000', 'GET', 'u32', '#8001', 'GET', 'u32', '#8002',
    'GET', 'u32', '#8003', 'GET', 'u32', sliceSlot,
  }
  local crmCodes, slots, count = {}, {}, 0
  for i = 3, #ARGV, 2 do
    local n = 17 + 3 * count
    count = count + 1
    crmCodes[count], slots[count] = ARGV[i], ARGV[i + 1]
    get[n + 1], get[n + 2], get[n + 3] = 'GET', 'u32', ARGV[i + 1]
  end
  local read = redis.call(unpack(get))
  readFirstChanges(read)

  -- How much of a record's usual gap counts as waiting.
  local function gapCounts(gap, lead)
    local counts = 0.2 * gap
    local part = math.min(1, counts / math.max(1, lead))
    return counts * part * math.sqrt(part)
  end

  local lowest = tonumber(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]) or now
  local found = redis.call('ZMSCORE', KEYS[1], unpack(crmCodes))
  local due = redis.call('ZMSCORE', KEYS[2], unpack(crmCodes))
  local changed = countOfSlice(read[5], slice)
  local counted = math.min(SLICE_NUMBERS - 1, changed + count)
  local sliceWord = slice % SLICE_NUMBERS * SLICE_NUMBERS + counted
  local places = { 'ZADD', KEYS[1] }
  local set = { 'BITFIELD', KEYS[4], 'SET', 'u32', sliceSlot, sliceWord }
  local ranks, words = {}, {}
  for i = 1, count do
    local crmCode, slot = crmCodes[i], slots[i]
    local rank = ranks[crmCode] or found[i]
    if due[i] then rank = better(rank, endWait(crmCode)) end
    rank = tonumber(rank or nil)
    lowest = math.min(lowest, rank or now)
    local lead, word = now - lowest, learn(words[slot] or read[5 + i])
    rank = rank and rank - math.min(0.03 * lead, 1 / 90 * hourMs)
    rank = math.floor(rank or now - gapCounts(gapOf(word), lead))
    lowest = math.min(lowest, rank)
    ranks[crmCode], words[slot] = rank, word
    places[2 * i + 1], places[2 * i + 2] = string.format('%d', rank), crmCode
    local n = 2 + 4 * i
    set[n + 1], set[n + 2], set[n + 3], set[n + 4] = 'SET', 'u32', slot, string.format('%d', word)
  end
  redis.call(unpack(places))
  if firstIsNew then
    local counts = { firstChangesWord(seen), firstChangesWord(again), firstChangesWord(gaps) }
    counts[4] = tick % WORD
    for i, word in ipairs(counts) do
      local n = #set
      set[n + 1], set[n + 2], set[n + 3], set[n + 4] = 'SET', 'u32', '#' .. (7999 + i), word
    end
  end
  redis.call(unpack(set))
  if changed == 0 then redis.call('PEXPIRE', KEYS[4], 2 * hourMs) end
end
