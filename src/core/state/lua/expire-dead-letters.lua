-- Counts the time that dead letters have been kept, and deletes some of those that were kept too
-- long. The time between two calls counts by Redis' clock, but never more than a limit: a step of
-- that clock cannot make all letters old at once.
--
-- <dead-letters>:time  hash: counted, the time counted so far, ms; at, when it was counted last
-- <dead-letters>:ages  sorted set id -> what was counted when the letter was stored
--
-- KEYS  1 dead-letters
-- ARGV  1 afterMs ('': never)  2 most time that counts between two calls, ms  3 most letters to
--       delete, and 4 most bytes, of which a single letter may have more
-- Returns { letters deleted, 1 when more are to be deleted }.
--- @include "../../../base/lua/now.lua"
local clock, ages = KEYS[1] .. ':time', KEYS[1] .. ':ages'
local known = redis.call('HMGET', clock, 'counted', 'at')
local passed = known[2] and math.min(math.max(now - known[2], 0), tonumber(ARGV[2])) or 0
local counted = (tonumber(known[1]) or 0) + passed
redis.call('HSET', clock, 'counted', counted, 'at', now)
if ARGV[1] == '' then return { 0, 0 } end

local most, bytes, expired = tonumber(ARGV[3]), 0, 0
local ids = redis.call('ZRANGEBYSCORE', ages, '-inf', counted - ARGV[1], 'LIMIT', 0, most + 1)
for n, id in ipairs(ids) do
  bytes = bytes + redis.call('HSTRLEN', KEYS[1], id)
  if n > most or (n > 1 and bytes > tonumber(ARGV[4])) then return { expired, 1 } end
  local mark = redis.call('HGET', KEYS[1] .. ':marks', id)
  expired = expired + redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', ages, id)
  redis.call('HDEL', KEYS[1] .. ':marks', id)
  if mark then redis.call('HINCRBY', KEYS[1] .. ':reasons', cjson.decode(mark).reason, -1) end
end
return { expired, 0 }
