-- Stores a dead letter, unless it is older than what is known of its record: it would mislead then.
--
-- KEYS  1 dead-letters  2 ledger  3 staged
-- ARGV  1 id  2 crmCode  3 order ('': unknown)  4 at, ms  5 details, JSON  6 event, encrypted
--       7 reason  8 '1': compare with the newest fields, not with the newest event
-- Returns 'stored' | 'superseded'.
local id, crmCode, order = ARGV[1], ARGV[2], ARGV[3]
--- @include "older.lua"
--- @include "count-out.lua"
local before = redis.call('HGET', KEYS[1], id)
local kept = before and cjson.decode(before) or nil
if order ~= '' then
  local row = redis.call('HGET', KEYS[2], crmCode)
  row = row and cjson.decode(row) or {}
  local watermark = ARGV[8] == '1' and row.wf or row.w
  local staged = ARGV[8] == '1' and redis.call('HGET', KEYS[3], 'of')
    or redis.call('HGET', KEYS[3], 'o')
  if (watermark and older(order, watermark)) or (staged and older(order, staged)) or
    (kept and kept.order ~= '' and older(order, kept.order)) then
    return 'superseded'
  end
end
redis.call('HSET', KEYS[1], id, cjson.encode({
  details = ARGV[5], event = ARGV[6], order = order,
  first = kept and kept.first or tonumber(ARGV[4]), times = (kept and kept.times or 0) + 1,
}))
countOut(KEYS[1], before)
redis.call('HINCRBY', KEYS[1] .. ':reasons', ARGV[7], 1)
redis.call('ZADD', KEYS[1] .. ':ages', redis.call('HGET', KEYS[1] .. ':time', 'counted') or 0, id)
return 'stored'
