-- Include: when the next turn may be taken; the same as turnAt() in src/quota/pacing.ts. With a
-- lowest rank, it is the time at which the turn comes by this part of the lead early.
local function turnAt(turn, betweenMs, early, lowest)
  local due = turn + betweenMs
  if early == 0 or not lowest then return due end
  return math.min(due, (due + early * lowest) / (1 + early))
end
