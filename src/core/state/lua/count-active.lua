-- Counts the active relations: rows of the ledger without those that were none when it was swept
-- last.
--
-- KEYS  1 ledger  2 its inactive rows at the last sweep  3 terminations of the window
-- Returns how many; those that were terminated within the window count as active.
local rows = redis.call('HLEN', KEYS[1])
local inactive = tonumber(redis.call('GET', KEYS[2]) or '0')
return math.max(rows - inactive, redis.call('ZCARD', KEYS[3]))
