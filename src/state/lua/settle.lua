-- Gives a taken state back.
--
-- KEYS  1 staged  2 ledger  3 unsynced:live  4 unsynced:bulk  5 verify  6 verify:proofs
--       7 terminations  8 terminations:held  9 dead-letters  10 history
-- ARGV  1 crmCode  2 token  3 row  4 finished  5 holdMs  6 payload  7 counts  8 doubt  9 late
--       10 proof  11 verifyMs  12 held  13 kept  14 dead letter  15 fields  16 historyMs
--       17 extra, and 18 body of its step (note-step.lua)
--   row       the new ledger row; 'before' restores the old one; '' leaves it uncertain
--   finished  '1' when this state is sent or given up
--   holdMs    for how long no worker may take the record, because a request may still arrive
--   payload   fetched from the service, replaces that of the state; '' none
--   counts    fields of the staged hash to count up, one letter each
--   doubt     what the reply left open; '' nothing
--   late      '1' when the request may still take effect
--   proof     what to verify later, if an earlier request may still take effect; '' nothing
--   verifyMs  after how long it is verified
--   held      '1' when this state is a termination that a person must release
--   kept      what the service has in the kept fields, for the next run; '' not read
--   dead letter  id of the record's, which goes if the service has what it says; '' it stays
--   fields    'ended': the relation has ended, so what the letter's fields are does not matter;
--             otherwise order of the event whose fields the service has, '' none
--   historyMs for how long history is kept; '' not
-- Returns 'lost' when another worker has taken the record over, 'more' when a newer state waits,
-- else 'settled'.
local crmCode, token, row, finished = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local holdMs = tonumber(ARGV[5])
--- @include "../../ops/lua/now.lua"
--- @include "staged-fields.lua"
--- @include "staged-pieces.lua"
--- @include "older.lua"
--- @include "count-out.lua"
--- @include "note-step.lua"
--- @include "move-history.lua"
moveHistory(KEYS[1], KEYS[10], ARGV[16])
noteStep(KEYS[10], ARGV[16], '', 'R', ARGV[17], ARGV[18])
if s.tt ~= token then return 'lost' end

if row ~= 'before' and row ~= '' then
  redis.call('HSET', KEYS[2], crmCode, row)
elseif row == 'before' then
  -- The ledger may have been forgotten meanwhile: the old row must not come back then.
  local held = redis.call('HGET', KEYS[2], crmCode)
  if held and cjson.decode(held).u then
    if s.lr == '' then redis.call('HDEL', KEYS[2], crmCode)
    else redis.call('HSET', KEYS[2], crmCode, s.lr) end
  end
end

local newer = s.v ~= s.tv
local late = s.lt or ARGV[9] == '1'
-- A relation that is known not to be terminated does not count for the guard, whatever was tried.
if not late and redis.call('ZSCORE', KEYS[7], crmCode) then
  local known = redis.call('HGET', KEYS[2], crmCode)
  known = known and cjson.decode(known) or { u = 1 }
  if not known.u and not known.x then redis.call('ZREM', KEYS[7], crmCode) end
end
if finished and not newer then
  if late then
    redis.call('ZADD', KEYS[5], now + ARGV[11], crmCode)
    -- Without a proof, the mark in `verify` is kept for the next state of the record. An earlier
    -- proof is kept too: the service should still have what it says.
    if ARGV[10] ~= '' then redis.call('HSET', KEYS[6], crmCode, ARGV[10]) end
  end
  local letter = ARGV[14] ~= '' and redis.call('HGET', KEYS[9], ARGV[14])
  local dead = letter and cjson.decode(letter)
  if dead and not older(s.o, dead.order) and
    (ARGV[15] == 'ended' or not older(ARGV[15], dead.of or dead.order)) then
    redis.call('HDEL', KEYS[9], ARGV[14])
    countOut(KEYS[9], letter)
  end
  redis.call('DEL', KEYS[1])
  if holdMs > 0 then
    redis.call('HSET', KEYS[1], 'tt', '', 'tu', now + holdMs)
    redis.call('PEXPIRE', KEYS[1], holdMs)
  end
  redis.call('ZREM', KEYS[3], crmCode)
  redis.call('ZREM', KEYS[4], crmCode)
  return 'settled'
end

redis.call('HDEL', KEYS[1], 'tv', 'lr')
if late then redis.call('HSET', KEYS[1], 'lt', '1') end
if holdMs > 0 then
  redis.call('HSET', KEYS[1], 'tt', '', 'tu', now + holdMs)
else
  redis.call('HDEL', KEYS[1], 'tt', 'tu')
end
if ARGV[12] == '1' and not newer then
  redis.call('HSET', KEYS[1], 'hv', s.v)
  -- The service may have other fields by the time of the release: fetch them again then.
  if s.pf then addPieces({}, 'p', '') end
  redis.call('HDEL', KEYS[1], 'n', 'n0', 'h', 'b', 'c', 'g', 'pf')
  redis.call('ZADD', KEYS[8], now, crmCode)
  redis.call('ZREM', KEYS[3], crmCode)
  redis.call('ZREM', KEYS[4], crmCode)
end
if finished then
  redis.call('HSET', KEYS[1], 't0', s.t1 or s.t)
  redis.call('HDEL', KEYS[1], 't1', 'a1', 'n', 'n0', 'h', 'b', 'c', 'd', 'g')
  redis.call('ZADD', s.l == 'live' and KEYS[3] or KEYS[4], s.a1 or now, crmCode)
  return 'more'
end
if ARGV[6] ~= '' and (s.p == '' or not newer) then
  local fields = { 'pf', '1' }
  -- An older program may have packed into it an event that did not bring it.
  if s.ev == '' then addPieces(fields, 'ev', s.p) end
  addPieces(fields, 'p', ARGV[6])
  redis.call('HSET', KEYS[1], unpack(fields))
end
-- The kept values are the service's, so a newer state needs the same ones.
if ARGV[13] ~= '' then redis.call('HSET', KEYS[1], 'kv', ARGV[13], 'kt', now) end
for field in string.gmatch(ARGV[7], '.') do
  redis.call('HINCRBY', KEYS[1], field, 1)
  if field == 'n' then redis.call('HSETNX', KEYS[1], 'n0', now) end
end
if ARGV[8] ~= '' and not newer then redis.call('HSET', KEYS[1], 'd', ARGV[8])
else redis.call('HDEL', KEYS[1], 'd') end
return newer and 'more' or 'settled'
