-- Include: reads the staged hash at KEYS[1] as table `s`.
--
-- Fields of a staged hash (times in ms):
--   v   number of this state, never used twice
--   p   payload with the event that brought it, packed and encrypted; '' or absent when the event
--       had none
--   pf  '1': the payload was fetched from the service
--   fp  fingerprint of the payload; '' when unknown
--   st  wanted status: terminated | active; absent: mapped
--   k   variant of the payload: Person | Company; '' when unknown
--   o   order of the newest event; in the hash, o, of and oe are short (short-order.lua)
--   of  order of the newest event that brought a record, when that is not the newest one; '' none
--   oe  order of the event in p, when that is not the newest event
--   l   lane: bulk; absent: live
--   t   time of the newest event
--   t0  time of the first unsynced event; absent: t
--   t1  time of the first event after the state was taken
--   a1  when that event arrived
--   ek  of a bulk change: keys of the events that made this state, of the one with its fields and
--       of the newest one
--   ev  the newest event, packed and encrypted, when it is not the one in p
--   hi  the first step of the record's history, while it is the only one
--   tr  trace of a state that came while an older one was taken: for the job that is added then
--   n   tries that ended in `unavailable`
--   n0  when the first of these tries ended
--   h   unexpected replies (409, 404) healed since this state was staged
--   b   tries that were answered 403
--   c   successes without proof that were not found on the service afterwards
--   g   readings of the kept fields since a state was last finished
--   kv  what the service has in the kept fields, encrypted: for the next run alone
--   kt  when that was read
--   d   what the last reply left open: missing | accepted | variant
--   lt  '1': an earlier request of the record may still take effect
--   hv  number of the state that is held for a person, a termination; it has no job then
--   ok  '1': a person has approved the termination
--   tv  number of the state that was taken
--   tt  token of the worker that took it
--   tu  until when no other worker may take the record
--   lr  the ledger's row from before the state was taken; '' when there was none
-- stage.lua writes v to tr, of, oe, t1 and a1, take.lua writes tv to lr and removes kv, settle.lua
-- writes n to d, hv and pf, release-termination.lua writes ok.
-- take.lua and settle.lua write lt; a newer state keeps it.
-- A hash with tt and tu alone, and an expiry, holds a record for which nothing is staged.
--
-- A hash needs a third of the memory while no value is longer than 64 bytes. So p and ev lie in
-- pieces: p, p1, p2, ...; in `s` they are whole. staged-pieces.lua writes them. hi lies in pieces
-- too, hi to hi3, also in `s`: hold-step.lua writes them, move-history.lua moves them to the
-- history's own key.
--- @include "whole-order.lua"
local s = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do s[flat[i]] = flat[i + 1] end

for _, name in ipairs({ 'p', 'ev' }) do
  local pieces, at = {}, name
  while s[at] do
    pieces[#pieces + 1] = s[at]
    s[at] = nil
    at = name .. #pieces
  end
  s[name] = table.concat(pieces)
end
for _, name in ipairs({ 'o', 'of', 'oe' }) do s[name] = s[name] and wholeOrder(s[name]) end
if s.v then
  s.st, s.l, s.t0 = s.st or 'mapped', s.l or 'live', s.t0 or s.t
end
