-- Takes the watermarks of forgotten rows over into the ledger: an event that is older than what was
-- settled must stay superseded. Of the relation itself the new rows say nothing.
--
-- KEYS  1 ledger  2 ledger:forgotten
-- ARGV  crmCode, forgotten row, crmCode, forgotten row, ...
-- Returns 0.
--- @include "older.lua"
for i = 1, #ARGV, 2 do
  local old = cjson.decode(ARGV[i + 1])
  local known = redis.call('HGET', KEYS[1], ARGV[i])
  local row = known and cjson.decode(known) or { e = -1, s = old.s }
  if old.w and (not row.w or older(row.w, old.w)) then
    row.w, row.wf, row.ws, row.a = old.w, old.wf, old.ws, old.a
    redis.call('HSET', KEYS[1], ARGV[i], cjson.encode(row))
  end
  redis.call('HDEL', KEYS[2], ARGV[i])
end
return 0
