-- Include: `now` is Redis' time, ms.
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
