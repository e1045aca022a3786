-- Tells a Redis that went back to an older state what was settled of one record since. Of the
-- relation itself the row says nothing: the ledger is warmed again.
--
-- KEYS  1 ledger  2 staged  3 unsynced:live  4 unsynced:bulk  5 terminations:held  6 verify
--       7 verify:proofs  8 history
-- ARGV  1 crmCode  2 order that was settled  3 order of its fields, and 4 the wanted status, if the
--       newest event brought no record (4 is '' if it did)  5 verifyMs
--       6 for how long history is kept, ms ('': not)
-- Returns 1 when an older state waited and was dropped, else 0.
--- @include "../../ops/lua/now.lua"
--- @include "older.lua"
--- @include "leave-late.lua"
--- @include "move-history.lua"
--- @include "whole-order.lua"
local crmCode, order = ARGV[1], ARGV[2]
local known = redis.call('HGET', KEYS[1], crmCode)
local row = known and cjson.decode(known) or { e = -1, s = 0 }
if not row.w or older(row.w, order) then
  row.w, row.wf, row.ws = order, nil, nil
  if ARGV[4] ~= '' then row.wf, row.ws = ARGV[3], ARGV[4] end
  redis.call('HSET', KEYS[1], crmCode, cjson.encode(row))
end
local f = redis.call('HMGET', KEYS[2], 'o', 'tv', 'tu', 'lt')
local s = { o = f[1] and wholeOrder(f[1]), tv = f[2], tu = f[3], lt = f[4] }
if not s.o or not older(s.o, order) then return 0 end
moveHistory(KEYS[2], KEYS[8], ARGV[6])
redis.call('DEL', KEYS[2])
leaveLate(KEYS[2], KEYS[6], ARGV[5], crmCode, s)
-- Its request may take effect after the service is listed.
if s.tv or s.lt then
  row.u = 1
  redis.call('HSET', KEYS[1], crmCode, cjson.encode(row))
  -- A proof that waits to be verified is older than what was settled.
  redis.call('HDEL', KEYS[7], crmCode)
end
redis.call('ZREM', KEYS[3], crmCode)
redis.call('ZREM', KEYS[4], crmCode)
redis.call('ZREM', KEYS[5], crmCode)
return 1
