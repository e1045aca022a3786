-- Counts the age of the state up. An emptied Redis gets a new name for its age, so that it is not
-- mistaken for an older copy: its ledger is as new as its age.
--
-- KEYS  1 age
-- ARGV  1 name of a new age
-- Returns { name, number }.
redis.call('HSETNX', KEYS[1], 'name', ARGV[1])
local number = redis.call('HINCRBY', KEYS[1], 'number', 1)
return { redis.call('HGET', KEYS[1], 'name'), number }
