-- Include: when the next turn may be taken; the same as turnAt() in src/quota/pacing.ts. A turn may
-- be early by the part `early` of the lead (now - lowest): the result is the first such time.
local function turnAt(turn, betweenMs, early, lowest)
  local due = turn + betweenMs
  if early == 0 or not lowest then return due end
  return math.min(due, (due + early * lowest) / (1 + early))
end
