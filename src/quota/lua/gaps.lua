-- Include: learns how long records usually go without a change, as src/quota/gaps.ts does.
-- Needs `now`, and the local `hourMs`.
local LASTS, GAPS, ONCE, WORD, PARTS = 2 ^ 19, 2 ^ 13, 2 ^ 13 - 1, 2 ^ 32, 256
local HOUR, WATCHED, FADING, SUPPOSED = 7200, 300, 3600, 2
local tickMs = hourMs / HOUR
local tick = math.floor(now / tickMs)
local firstIsNew = false
local seen, again, gaps

local function passed(since, range)
  local ticks = (tick - since) % range
  return ticks > range / 2 and 0 or ticks
end

local function readFirstChanges(words)
  local part = FADING / (FADING + passed(words[4], WORD))
  seen = math.floor(words[1] * part) / PARTS
  again = math.floor(words[2] * part) / PARTS
  gaps = math.floor(words[3] * part) / PARTS
end

-- Returns the word of a record's slot after one more change.
local function learn(word)
  local gap, since = word % GAPS, passed(math.floor(word / GAPS), LASTS)
  local counted = math.max(1, since)
  if gap == 0 or since > HOUR then
    seen, firstIsNew, gap = seen + 1, true, ONCE
  elseif gap == ONCE then
    gap = counted
    if since <= WATCHED then again, gaps, firstIsNew = again + 1, gaps + counted, true end
  else
    gap = math.floor(math.sqrt(gap * counted))
  end
  return tick % LASTS * GAPS + gap
end

-- The usual gap of a record, ms.
local function gapOf(word)
  local gap = word % GAPS
  if gap ~= ONCE then return math.min(HOUR, gap) * tickMs end
  local watched = math.max(0, seen - again) * WATCHED + gaps
  return math.min(HOUR, (watched + SUPPOSED * HOUR) / (again + SUPPOSED)) * tickMs
end

local function firstChangesWord(count) return math.min(WORD - 1, count * PARTS) end
