-- Stores a dead letter, unless it is older than what is known of its record: it would mislead then.
--
-- KEYS  1 dead-letters  2 ledger  3 staged
-- ARGV  1 id  2 crmCode  3 order ('': unknown)  4 at, ms  5 details, JSON  6 event, encrypted
--       7 reason  8 '1': compare with the newest fields, not with the newest event
--       9 '1': the event brings fields; else 10 the event that did, encrypted ('': none), and 11
--       its order
-- Returns 'stored' | 'superseded'.
local id, crmCode, order = ARGV[1], ARGV[2], ARGV[3]
--- @include "older.lua"
--- @include "count-out.lua"
local before = redis.call('HGET', KEYS[1], id)
local kept = before and cjson.decode(before) or nil
local hasFields, fields, fieldsOrder = ARGV[9] == '1', ARGV[10], ARGV[11]
if order ~= '' then
  local row = redis.call('HGET', KEYS[2], crmCode)
  row = row and cjson.decode(row) or {}
  -- An event that only restored the record says nothing of its fields. If one ended it, no earlier
  -- field matters.
  local function outdated(ofAll, ofFields, status)
    if ofFields and fields ~= '' and older(fieldsOrder, ofFields) then return true end
    local asFields = ofFields and (ARGV[8] == '1' or (hasFields and status == 'active'))
    local newest = asFields and ofFields or ofAll
    return newest and older(order, newest)
  end
  if outdated(row.w, row.wf, row.ws) or
    outdated(unpack(redis.call('HMGET', KEYS[3], 'o', 'of', 'st'))) or
    (kept and kept.order ~= '' and older(order, kept.order)) then
    return 'superseded'
  end
end
-- What is wrong with the fields of the letter before is still wrong.
if not hasFields and fields == '' and kept and kept.order ~= '' then
  fields, fieldsOrder = kept.fields or kept.event, kept.fields and kept.of or kept.order
end
redis.call('HSET', KEYS[1], id, cjson.encode({
  details = ARGV[5], event = ARGV[6], order = order,
  fields = not hasFields and fields or nil, of = not hasFields and fieldsOrder or nil,
  first = kept and kept.first or tonumber(ARGV[4]), times = (kept and kept.times or 0) + 1,
}))
countOut(KEYS[1], before)
redis.call('HINCRBY', KEYS[1] .. ':reasons', ARGV[7], 1)
redis.call('ZADD', KEYS[1] .. ':ages', redis.call('HGET', KEYS[1] .. ':time', 'counted') or 0, id)
return 'stored'
