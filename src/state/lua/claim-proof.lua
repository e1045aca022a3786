-- Gives one due proof to the caller. The proof of a record that is staged waits: the record will be
-- settled again, and its proof kept anew. The ledger is not asked: it may have been listed since,
-- with what the late request has left. A mark without a proof says only that a request was late:
-- nothing can be verified, and the row is uncertain from here on.
--
-- KEYS  1 verify  2 verify:proofs  3 ledger
-- ARGV  1 leaseMs  2 prefix of the staged keys
-- Returns {} or { crmCode, stored proof }.
--- @include "../../ops/lua/now.lua"
local due = redis.call('ZRANGEBYSCORE', KEYS[1], 0, now, 'LIMIT', 0, 100)
for _, crmCode in ipairs(due) do
  local stored = redis.call('HGET', KEYS[2], crmCode)
  if redis.call('HEXISTS', ARGV[2] .. crmCode, 'v') == 1 then
    redis.call('ZADD', KEYS[1], now + ARGV[1], crmCode)
  elseif stored then
    redis.call('ZADD', KEYS[1], now + ARGV[1], crmCode)
    return { crmCode, stored }
  else
    redis.call('ZREM', KEYS[1], crmCode)
    local row = redis.call('HGET', KEYS[3], crmCode)
    if row then
      row = cjson.decode(row)
      row.u = 1
      redis.call('HSET', KEYS[3], crmCode, cjson.encode(row))
    end
  end
end
return {}
