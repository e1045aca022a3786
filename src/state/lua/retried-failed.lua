-- Counts a failed try of a record.
--
-- KEYS  1 retried  2 retried:details
-- ARGV  1 crmCode  2 reason  3 hash of the crmCode  4 most records to remember
-- Returns how often the record has failed.
--- @include "../../ops/lua/now.lua"
local tries = redis.call('ZINCRBY', KEYS[1], 1, ARGV[1])
local before = redis.call('HGET', KEYS[2], ARGV[1])
local since = before and cjson.decode(before).since or now
redis.call('HSET', KEYS[2], ARGV[1],
  cjson.encode({ since = since, reason = ARGV[2], record = ARGV[3] }))
if redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[4]) then
  redis.call('HDEL', KEYS[2], redis.call('ZPOPMIN', KEYS[1])[1])
end
return tonumber(tries)
