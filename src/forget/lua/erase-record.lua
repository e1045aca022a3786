-- Looks for what is known of one record, and erases it. What its next event must still know stays
-- under a hash of the crmCode (stage.lua): the order of its newest event, and that the relation may
-- exist on the service.
--
-- KEYS  1 staged  2 ledger  3 ledger:forgotten  4 unsynced:live  5 unsynced:bulk  6 verify
--       7 verify:proofs  8 retried  9 retried:details  10 outage:records  11 priorities
--       12 postponed  13 ranks of the postponed  14 erased  15 terminations  16 terminations:held
--       17 history  18 outage:suspects
-- ARGV  1 crmCode  2 'look' | 'erase'  3 for how long the order stays when the service is known not
--       to have the relation, s
-- Returns { 1 while a request of the record is under way (nothing is erased then), and 1 for each
-- that is there: a staged state, a row of the ledger, a state to verify, a count of its tries, a
-- place in the order of service, a history }.
local crmCode = ARGV[1]
--- @include "../../ops/lua/now.lua"
--- @include "../../state/lua/older.lua"
--- @include "../../state/lua/staged-fields.lua"
local function has(command, key) return redis.call(command, key, crmCode) and 1 or 0 end
local text = redis.call('HGET', KEYS[2], crmCode) or redis.call('HGET', KEYS[3], crmCode)
local tries = math.max(has('ZSCORE', KEYS[8]), has('HGET', KEYS[9]), has('HGET', KEYS[10]),
  has('ZSCORE', KEYS[18]))
local place = math.max(has('ZSCORE', KEYS[11]), has('ZSCORE', KEYS[12]), has('HGET', KEYS[13]))
local waits = math.max(s.v and 1 or 0, has('ZSCORE', KEYS[4]), has('ZSCORE', KEYS[5]))
local verifies = math.max(has('ZSCORE', KEYS[6]), has('HGET', KEYS[7]))
local isHeld = s.tu and tonumber(s.tu) > now
local past = s.hi and 1 or redis.call('EXISTS', KEYS[17])
local found = { isHeld and 1 or 0, waits, text and 1 or 0, verifies, tries, place, past }
if isHeld or ARGV[2] == 'look' then return found end

local row = text and cjson.decode(text) or {}
local kept = { w = row.w, wf = row.wf, ws = row.ws, s = row.s or 0 }
if s.o and (not row.w or older(row.w, s.o)) then
  kept.w, kept.wf, kept.ws = s.o, s.of, s.of and s.st
end
redis.call('DEL', KEYS[1], KEYS[17])
for _, i in ipairs({ 2, 3, 7, 9, 10, 13 }) do redis.call('HDEL', KEYS[i], crmCode) end
for _, i in ipairs({ 4, 5, 6, 8, 11, 12, 15, 16, 18 }) do redis.call('ZREM', KEYS[i], crmCode) end
-- Last: a full Redis lets a script go on that has deleted something.
if text or kept.w then
  redis.call('SET', KEYS[14], cjson.encode(kept))
  if row.e == 0 and not row.u then redis.call('EXPIRE', KEYS[14], ARGV[3]) end
end
return found
