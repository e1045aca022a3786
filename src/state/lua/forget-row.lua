-- Forgets what one row says of its relation; its watermark stays. A row is left alone while a
-- request is under way.
--
-- KEYS  1 ledger
-- ARGV  1 crmCode
-- Returns 1 when it was forgotten, 0 when there is none or a request is under way.
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known then return 0 end
local row = cjson.decode(known)
if row.u then return 0 end
local kept = { e = -1, w = row.w, wf = row.wf, ws = row.ws, a = row.a, s = row.s }
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(kept))
return 1
