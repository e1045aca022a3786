-- Include: how long after so many probes the next one follows, ms.
local function probePause(pauseMs, maxPauseMs, probes)
  return math.min(pauseMs * 2 ^ math.min(probes, 10), tonumber(maxPauseMs))
end
