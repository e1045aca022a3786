-- Tells how many dead letters expire soon (expire-dead-letters.lua).
--
-- KEYS  1 dead-letters
-- ARGV  1 afterMs  2 how soon, ms
-- Returns { how many, ms until the first of all letters is deleted ('': there is none) }.
local counted = redis.call('HGET', KEYS[1] .. ':time', 'counted') or 0
local ages = KEYS[1] .. ':ages'
local first = redis.call('ZRANGE', ages, 0, 0, 'WITHSCORES')[2]
local soon = redis.call('ZCOUNT', ages, '-inf', counted - ARGV[1] + ARGV[2])
return { soon, first and string.format('%d', first + ARGV[1] - counted) or '' }
