-- Runs one write command. As a script it also runs while Redis' memory is at its limit.
--
-- KEYS  1 key
-- ARGV  1 command  2... its arguments after the key, at most some thousands
-- Returns the command's reply.
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))
