-- Makes a ledger row uncertain, because the service has something else than was proven.
--
-- KEYS  1 verify:proofs  2 ledger  3 staged
-- ARGV  1 crmCode  2 the stored proof
-- Returns 1; 0 when the record has changed since the proof was read.
local crmCode = ARGV[1]
if redis.call('HGET', KEYS[1], crmCode) ~= ARGV[2] then return 0 end
if redis.call('HEXISTS', KEYS[3], 'v') == 1 then return 0 end
local row = redis.call('HGET', KEYS[2], crmCode)
if row then
  row = cjson.decode(row)
  row.u = 1
  redis.call('HSET', KEYS[2], crmCode, cjson.encode(row))
end
return 1
