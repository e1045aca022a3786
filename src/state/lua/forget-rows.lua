-- Deletes rows of the ledger that have not changed since the caller read them.
--
-- KEYS  1 ledger
-- ARGV  crmCode, row, crmCode, row, ...
-- Returns how many rows were deleted.
local forgotten = 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    forgotten = forgotten + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return forgotten
