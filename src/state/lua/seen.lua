-- Tells which events were seen before. It is a script because a pipeline of ioredis copies all
-- commands of the client.
--
-- KEYS  seen:<day>...
-- ARGV  eventKey..., at most a thousand: all of them go onto Lua's stack
-- Returns 0 | 1 for each event key.
local flags = {}
for i = 1, #ARGV do flags[i] = 0 end
for _, day in ipairs(KEYS) do
  for i, flag in ipairs(redis.call('SMISMEMBER', day, unpack(ARGV))) do
    if flag == 1 then flags[i] = 1 end
  end
end
return flags
