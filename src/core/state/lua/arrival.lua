-- Tells when an event counts as arrived, or as sent. Times grow with the events' numbers, in
-- whatever order their workers ask: two events without a usable time of their own keep the order in
-- which they came, although the clocks of their senders differ.
--
-- KEYS  1 arrivals: sorted set time, ms -> the highest number that arrived then
--       2 how many events have been added
-- ARGV  1 number of the event  2 when its sender says that it was sent, ms; '': that does not count
--       3 most times to keep  4 for how long, ms
--       5 no event arrives before this, ms (redis-clock.ts)
-- Returns the time, ms.
--- @include "../../../base/lua/now.lua"
-- A number that no event has yet comes from an id that its sender has chosen, or from before the
-- queue was emptied. In the set, it would hold back the times of all events to come.
local count = tonumber(redis.call('GET', KEYS[2])) or 0
local number = math.min(tonumber(ARGV[1]), count)
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%d', count), '+inf')
local before = redis.call('ZREVRANGEBYSCORE', KEYS[1], number, '-inf', 'LIMIT', 0, 1)[1]
local after = redis.call('ZRANGEBYSCORE', KEYS[1], number, '+inf', 'LIMIT', 0, 1)[1]
local present = math.max(now, tonumber(ARGV[5]))
local at = math.max(math.min(present, tonumber(ARGV[2]) or present), tonumber(before) or 0)
if after then at = math.min(at, tonumber(after)) end
redis.call('ZADD', KEYS[1], 'GT', number, at)
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -ARGV[3] - 1)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return at
