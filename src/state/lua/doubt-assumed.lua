-- Doubts rows of relations that were assumed to be absent, because a list was empty, when their
-- records were deleted: they say "unknown" from here on.
--
-- KEYS  1 ledger
-- ARGV  crmCodes of relations that the service has
-- Returns those whose deletion was left out.
local leftOut = {}
for i, known in ipairs(redis.call('HMGET', KEYS[1], unpack(ARGV))) do
  local row = known and cjson.decode(known)
  if row and row.a and not row.u then
    row.e = -1
    redis.call('HSET', KEYS[1], ARGV[i], cjson.encode(row))
    leftOut[#leftOut + 1] = ARGV[i]
  end
end
return leftOut
