-- Stores a dead letter, unless something newer of its record is known, or the record has ended
-- since: the letter would mislead then. A record has one letter: the new one and an earlier one are
-- merged, with the newest status, and the event that brought the newest fields.
--
-- A stored letter, as JSON:
--   details  the rest of the letter, JSON        event  encrypted
--   order    of the newest event ('': unknown)
--   eo       order of `event`, when that is an earlier one
--   of       order of the newest event that brought fields, which is `event`; '': it brought none;
--            absent: unknown
--   st       status that the newest event demands: terminated | active; absent: that of the fields
--   first    when a letter of this id was first stored, ms        times  how often one was stored
--
-- KEYS  1 dead-letters  2 ledger  3 staged  4 erased  5 ledger:forgotten
-- ARGV  1 id  2 crmCode  3 order of the newest event ('': unknown)  4 at, ms  5 details, JSON
--       6 event, encrypted  7 reason  8 order of this event
--       9 whether it brought fields: '1' | '0' ('': unknown)  10 status of the newest event
-- Returns 'stored' | 'superseded'.
--- @include "older.lua"
--- @include "count-out.lua"
--- @include "whole-order.lua"
local id, crmCode, order, eventOrder = ARGV[1], ARGV[2], ARGV[3], ARGV[8]
local details, event, reason, status = ARGV[5], ARGV[6], ARGV[7], ARGV[10]
local isForced = status == 'terminated' or status == 'active'
local fields = ARGV[9] == '1' and eventOrder or ''
local before = redis.call('HGET', KEYS[1], id)
local kept = before and cjson.decode(before) or nil
if order ~= '' then
  local row = redis.call('HGET', KEYS[2], crmCode)
  row = row and cjson.decode(row) or nil
  -- Its row was erased by `crmsync forget`, or is being forgotten: what was settled stays the
  -- newest (stage.lua).
  local left = not (row and row.w) and
    (redis.call('GET', KEYS[4]) or redis.call('HGET', KEYS[5], crmCode))
  if left then
    left = cjson.decode(left)
    row = row or {}
    row.w, row.wf, row.ws = left.w, left.wf, left.ws
  end
  local f = redis.call('HMGET', KEYS[3], 'v', 'tv', 'o', 'of', 'oe')
  local function orderIn(short) return short and wholeOrder(short) or nil end
  local s = { v = f[1], tv = f[2], o = orderIn(f[3]), of = orderIn(f[4]), oe = orderIn(f[5]) }
--- @include "known-orders.lua"
  -- A state waits that has the status and the fields of this letter, or newer ones.
  if s.v and s.v ~= s.tv and not older(s.o, order) then
    local waiting = s.of or s.o
    local bringsThem = (s.oe or s.o) == waiting and redis.call('HEXISTS', KEYS[3], 'p') == 1
    if fields == '' or older(fields, waiting) or (fields == waiting and bringsThem) then
      return 'superseded'
    end
  end
  local hasFields = fields ~= '' and not older(fields, newestFields)
  if older(order, newest) then
    if not hasFields then return 'superseded' end
    -- The record has ended: what is wrong with its fields does not matter (stage.lua).
    local isEnded = row and row.w == newest and row.ws == 'terminated' and not row.u and
      (row.e == 0 or row.x)
    if isEnded then return 'superseded' end
    -- The letter's fields are the newest, its status is not.
    order, isForced = eventOrder, false
  elseif order == newest and fields ~= '' and not hasFields then
    return 'superseded'
  end
  if kept and kept.order ~= '' and older(order, kept.order) then
    if not (hasFields and kept.of and kept.st) or older(fields, kept.of) then
      return 'superseded'
    end
    order, status, isForced = kept.order, kept.st, true
  elseif kept and kept.of and isForced and older(fields, kept.of) and
    not older(kept.of, newestFields) then
    event, eventOrder, fields = kept.event, kept.eo or kept.order, kept.of
    -- What is wrong with the fields is still wrong, but keeps no relation from being terminated.
    if status ~= 'terminated' then
      details, reason = kept.details, cjson.decode(kept.details).reason
    end
  end
end
redis.call('HSET', KEYS[1], id, cjson.encode({
  details = details, event = event, order = order, eo = eventOrder ~= order and eventOrder or nil,
  of = ARGV[9] ~= '' and fields or nil, st = isForced and status or nil,
  first = kept and kept.first or tonumber(ARGV[4]), times = (kept and kept.times or 0) + 1,
}))
countOut(KEYS[1], before)
redis.call('HINCRBY', KEYS[1] .. ':reasons', reason, 1)
redis.call('ZADD', KEYS[1] .. ':ages', redis.call('HGET', KEYS[1] .. ':time', 'counted') or 0, id)
return 'stored'
