-- Writes the version of the state into a Redis that has lost it, and returns what is there.
--
-- KEYS  1 state-version
-- ARGV  1 version of the program that runs on it
-- Returns { version, target }.
redis.call('HSETNX', KEYS[1], 'version', ARGV[1])
return redis.call('HMGET', KEYS[1], 'version', 'target')
