-- Notes a comparison, and forgets old ones: the newest are kept, and the newest of each kind of
-- export. A comparison that a guard has stopped says nothing of its export.
--
-- KEYS  1 reconciliation:comparisons
-- ARGV  1 when it ended, ms  2 the comparison, as JSON  3 how many are kept, of whatever kind
--       4 how many are kept in all  5 when the oldest that is kept has ended, ms
--       6 time to live, ms
-- Returns nothing.
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
local ofAnyKind, ofAll, seen = tonumber(ARGV[3]), tonumber(ARGV[4]), {}
for place, text in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
  local one = cjson.decode(text)
  local kind = one.kind or one.crm or ''
  local isNewest = not one.stop and not one.dismissed and not seen[kind]
  if isNewest then seen[kind] = true end
  if place > ofAll or place > ofAnyKind and not isNewest then redis.call('ZREM', KEYS[1], text) end
end
