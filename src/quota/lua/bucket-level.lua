-- Include: `level` is the number of tokens in the bucket (see pace.lua) at `now`. A bucket that has
-- no record is full. Needs now.lua, pace.lua, and the locals `burst` and `steadyMs`.
local level = math.min(burst, (pace.level or burst) + (now - (pace.at or now)) / steadyMs)
