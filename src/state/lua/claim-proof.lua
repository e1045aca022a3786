-- Gives one due proof to the caller. Forgets due ones of which nothing is to be verified: the mark
-- of a late request alone, or a ledger that says something else now. A record that is staged waits:
-- it is settled again, and its proof is kept anew then.
--
-- KEYS  1 verify  2 verify:proofs  3 ledger
-- ARGV  1 leaseMs  2 prefix of the staged keys
-- Returns {} or { crmCode, stored proof, row }.
--- @include "../../ops/lua/now.lua"
--- @include "proof-of-row.lua"
local due = redis.call('ZRANGEBYSCORE', KEYS[1], 0, now, 'LIMIT', 0, 100)
for _, crmCode in ipairs(due) do
  local stored = redis.call('HGET', KEYS[2], crmCode)
  local row = redis.call('HGET', KEYS[3], crmCode)
  if redis.call('HEXISTS', ARGV[2] .. crmCode, 'v') == 1 then
    redis.call('ZADD', KEYS[1], now + ARGV[1], crmCode)
  elseif stored and row and proofOfRow(row) == cjson.decode(stored).proof then
    redis.call('ZADD', KEYS[1], now + ARGV[1], crmCode)
    return { crmCode, stored, row }
  else
    redis.call('ZREM', KEYS[1], crmCode)
    redis.call('HDEL', KEYS[2], crmCode)
  end
end
return {}
