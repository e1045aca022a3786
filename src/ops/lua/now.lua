-- Include: `now` is the server's clock in ms, the one clock that all processes share.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
