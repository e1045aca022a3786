-- Counts the age of the state up. An emptied Redis gets a new name for its age: a process that
-- knows the former one learns from it that everything is gone, whatever the number.
--
-- KEYS  1 age
-- ARGV  1 name of a new age
-- Returns { name, number }.
redis.call('HSETNX', KEYS[1], 'name', ARGV[1])
local number = redis.call('HINCRBY', KEYS[1], 'number', 1)
return { redis.call('HGET', KEYS[1], 'name'), number }
