-- Stages the newest state of one record, or settles it at once when the ledger proves that it
-- needs no request (decide.ts decides the same from a taken state).
--
-- KEYS  1 staged  2 ledger  3 warm-up  4 versions  5 unsynced:live  6 unsynced:bulk
--       7 dead-letters  8 erased  9 seen:<today>  10... seen:<earlier day>
-- ARGV  1 crmCode  2 eventKey ('': not remembered)  3 order  4 payload ('': none)  5 fingerprint
--       6 status  7 variant  8 lane  9 time, ms  10 event  11 time to live of the seen set, s
--       12 id of the record's dead letter  13 most event keys to remember in a day
--       14 order of the event that the payload is from  15 order of `event`; each '': this one
--       16 the mapping's kept fields, written if Redis does not know any ('': not)
--       17 for how long history is kept, ms ('': not)  18 origin, and 19 rest of its step
-- Returns { result, coalesced 0 | 1, expedite 0 | 1, needsJob 0 | 1; of what was staged }.
--   result    staged | held | unchanged | nothing_to_terminate | superseded | duplicate
--             held: it replaced a held termination, and is one itself
--   expedite  1 when the record's job waits longer than this state should: in the bulk lane, or for
--             the retry of an older state
--   needsJob  1 when no job of the record waits
-- The last of KEYS are terminations:held, kept-fields, history and history:codes.
local crmCode, eventKey, order, payload, fingerprint = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local status, variant, lane, time, event = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local historyCodes, history = table.remove(KEYS), table.remove(KEYS)
local keptFields = table.remove(KEYS)
local heldList = table.remove(KEYS)
--- @include "../../ops/lua/now.lua"
--- @include "older.lua"
--- @include "count-out.lua"
--- @include "agrees.lua"
--- @include "note-step.lua"
--- @include "note-code.lua"
local RESULT_CODES = {
  staged = 's', held = 'h', unchanged = 'u', nothing_to_terminate = 'n', superseded = 'o',
}
local function finish(result, coalesced, expedite, needsJob)
  noteStep(history, ARGV[17], ARGV[18], 'E', '',
    RESULT_CODES[result] .. (coalesced and 'c' or '') .. ARGV[19])
  noteCode(historyCodes, ARGV[17], crmCode)
  return { result, coalesced and 1 or 0, expedite and 1 or 0, needsJob and 1 or 0 }
end

if eventKey ~= '' then
  for i = 9, #KEYS do
    if redis.call('SISMEMBER', KEYS[i], eventKey) == 1 then return { 'duplicate', 0, 0 } end
  end
  -- Past the limit, only the event order recognises a repeated event.
  if redis.call('SCARD', KEYS[9]) < tonumber(ARGV[13]) then
    redis.call('SADD', KEYS[9], eventKey)
    redis.call('EXPIRE', KEYS[9], ARGV[11])
  end
end

-- The worker that takes the state must know what to keep, also after Redis has lost everything.
if ARGV[16] ~= '' then redis.call('SET', keptFields, ARGV[16], 'NX') end

--- @include "staged-fields.lua"
local row = redis.call('HGET', KEYS[2], crmCode)
row = row and cjson.decode(row) or nil
-- `crmsync forget` has erased the row: whether the relation exists is unknown, its order is not.
local erased = not (row and row.w) and redis.call('GET', KEYS[8])
if erased then
  erased = cjson.decode(erased)
  row = row or { e = -1, s = erased.s }
  row.w, row.wf, row.ws = erased.w, erased.wf, erased.ws
end
local fieldsOrder = ARGV[14] ~= '' and ARGV[14] or order
local eventOrder = ARGV[15] ~= '' and ARGV[15] or order
local ownOrder = order
local settledFields = row and (row.wf or row.w)
local stagedFields = s.of or s.o
if (row and row.w and older(order, row.w)) or (s.o and older(order, s.o)) then
  if payload == '' or (settledFields and older(order, settledFields)) or
    (stagedFields and older(order, stagedFields)) then
    -- An erased record that is still erased afterwards keeps no history.
    return erased and { 'superseded', 0, 0 } or finish('superseded')
  end
  -- The newest event brought no record: the fields of this one are the newest, its status is not.
  fingerprint = ''
  if s.o and not (row and row.w and older(s.o, row.w)) then
    order, status = s.o, s.st
    -- As a dead letter, the event of the status tells more.
    if not s.oe then event, eventOrder, time = s.ev, s.o, s.t end
  else
    order, status = row.w, row.ws
  end
elseif payload == '' then
  fieldsOrder = s.v and stagedFields or settledFields or ''
end

if erased then
  redis.call('HSET', KEYS[2], crmCode, cjson.encode(row))
  redis.call('DEL', KEYS[8])
end

-- The dead letter of a newer event describes what is wrong with the record now: keep it.
local deadLetter = redis.call('HGET', KEYS[7], ARGV[12])
if deadLetter and not older(ownOrder, cjson.decode(deadLetter).order) then
  redis.call('HDEL', KEYS[7], ARGV[12])
  countOut(KEYS[7], deadLetter)
end
local ofEvent = redis.call('HGET', KEYS[7], 'e:' .. eventKey)
redis.call('HDEL', KEYS[7], 'e:' .. eventKey)
countOut(KEYS[7], ofEvent)

local taken = s.tv ~= nil
local pending = s.v ~= nil and s.v ~= s.tv
local held = payload
if held == '' and s.v then held = s.p end

-- A state that the ledger proves needs no request, however long the quota is exhausted.
local absent = (row and row.e == 0) or (not row and redis.call('HGET', KEYS[3], 'state') == 'done')
-- While an earlier request may still take effect (lt), what is proven must be verified later: take.
local certain = not s.lt and ((row and row.e ~= -1 and not row.u) or (not row and absent))
local settled = nil
if certain then
  -- A terminated relation takes newer fields, but not those of the other variant.
  local ended = row and row.x and (held == '' or agrees(fingerprint, row.f) or
    (payload ~= '' and row.k and row.k ~= string.sub(variant, 1, 1)))
  if status == 'terminated' and (absent or ended) then
    settled = 'nothing_to_terminate'
  elseif payload ~= '' and not absent and agrees(fingerprint, row.f) then
    settled = 'unchanged'
  elseif status == 'active' and held == '' and not absent and not row.x then
    settled = 'unchanged'
  end
end
if settled then
  row = row or { e = 0 }
  row.w = order
  row.wf, row.ws = nil, nil
  if fieldsOrder ~= order then row.wf, row.ws = fieldsOrder, status end
  row.s = now
  redis.call('HSET', KEYS[2], crmCode, cjson.encode(row))
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[5], crmCode)
  redis.call('ZREM', KEYS[6], crmCode)
  redis.call('ZREM', heldList, crmCode)
  return finish(settled, pending)
end

-- What `crmsync bulk cancel` lets be sent again, if it drops this state.
local eventKeys = eventKey
if s.v and s.ek and payload == '' and s.p ~= '' then
  eventKeys = string.match(s.ek, '%S*') .. ' ' .. eventKey
elseif s.v and s.ek and order == s.o and ownOrder ~= s.o then
  eventKeys = eventKey .. ' ' .. string.match(s.ek, '%S*$')
end
local newLane = (s.v and s.l == 'live') and 'live' or lane
local promoted = s.v and s.l == 'bulk' and newLane == 'live'
local expedite = promoted or s.n
local version = redis.call('INCR', KEYS[4])
redis.call('HSET', KEYS[1], 'v', version, 'p', held, 'fp', fingerprint,
  'st', status, 'k', variant ~= '' and variant or (s.k or ''), 'o', order, 'l', newLane,
  't', time, 'ev', event, 'ek', eventKeys)
redis.call('HDEL', KEYS[1], 'of', 'oe', 'n', 'n0', 'h', 'b', 'c', 'd')
if payload ~= '' then redis.call('HDEL', KEYS[1], 'pf') end
if fieldsOrder ~= order then redis.call('HSET', KEYS[1], 'of', fieldsOrder) end
if eventOrder ~= order then redis.call('HSET', KEYS[1], 'oe', eventOrder) end
redis.call('PERSIST', KEYS[1])
if not s.t0 then redis.call('HSET', KEYS[1], 't0', time) end
if taken and not s.t1 then redis.call('HSET', KEYS[1], 't1', time, 'a1', now) end
-- A termination that replaces another one is held, or approved, as that was.
if status ~= 'terminated' then redis.call('HDEL', KEYS[1], 'ok') end
local forPerson = s.v and s.hv == s.v
if forPerson and status == 'terminated' then
  redis.call('HSET', KEYS[1], 'hv', version)
  return finish('held', true)
end
redis.call('HDEL', KEYS[1], 'hv')
redis.call('ZREM', heldList, crmCode)
-- A change waits from its arrival: its time may lie years back, or be that of a wrong clock.
local since = redis.call('ZSCORE', KEYS[5], crmCode) or redis.call('ZSCORE', KEYS[6], crmCode)
if promoted then redis.call('ZREM', KEYS[6], crmCode) end
redis.call('ZADD', newLane == 'live' and KEYS[5] or KEYS[6], 'NX', since or now, crmCode)
return finish('staged', pending, expedite, not pending or forPerson)
