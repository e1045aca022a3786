-- Runs commands that write or read, each on one key, as one step. As a script they also run while
-- Redis' memory is at its limit, where Redis refuses every transaction.
--
-- KEYS  the key of each command
-- ARGV  of each command: how many texts follow, the command, its arguments after the key; at most
--       some thousands
-- Returns the replies.
local replies, at = {}, 1
for i, key in ipairs(KEYS) do
  local count = tonumber(ARGV[at])
  replies[i] = redis.call(ARGV[at + 1], key, unpack(ARGV, at + 2, at + count))
  at = at + count + 1
end
return replies
