-- Makes letters and ages agree after a release that knows no ages has stored or deleted letters. A
-- letter without an age counts from now on.
--
-- KEYS  1 dead-letters
-- ARGV  1 'letters': gives an age to those of one page that have none; 'ages': deletes the ages of
--       one page whose letter is gone  2 cursor of the scan
-- Returns the next cursor ('0': done).
local ages = KEYS[1] .. ':ages'
if ARGV[1] == 'ages' then
  local page = redis.call('ZSCAN', ages, ARGV[2], 'COUNT', 500)
  for i = 1, #page[2], 2 do
    if redis.call('HEXISTS', KEYS[1], page[2][i]) == 0 then
      redis.call('ZREM', ages, page[2][i])
    end
  end
  return page[1]
end
local counted = redis.call('HGET', KEYS[1] .. ':time', 'counted') or 0
local page = redis.call('HSCAN', KEYS[1], ARGV[2], 'COUNT', 100)
for i = 1, #page[2], 2 do
  redis.call('ZADD', ages, 'NX', counted, page[2][i])
end
return page[1]
