-- Forgets a proof, unless the record was settled again since it was read.
--
-- KEYS  1 verify  2 verify:proofs
-- ARGV  1 crmCode  2 the stored proof
-- Returns 1 when it was forgotten, else 0.
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
