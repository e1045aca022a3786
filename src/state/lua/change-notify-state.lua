-- Replaces the state of notifications, unless another process has changed it since it was read, and
-- queues the messages of the change.
--
-- KEYS  1 notify  2 notify:queue
-- ARGV  1 the state as it was read ('': none)  2 the next one  3 most messages that wait
--       4... messages, JSON
-- Returns how many messages were left out because too many wait; -1: the state was changed.
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return -1 end
redis.call('SET', KEYS[1], ARGV[2])
local leftOut = 0
for i = 4, #ARGV do
  if redis.call('LLEN', KEYS[2]) < tonumber(ARGV[3]) then
    redis.call('RPUSH', KEYS[2], ARGV[i])
  else
    leftOut = leftOut + 1
  end
end
return leftOut
