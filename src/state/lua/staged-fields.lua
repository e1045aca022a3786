-- Include: reads the staged hash at KEYS[1] as table `s`; `flat` is the same as a list.
--
-- Fields of a staged hash (times in ms):
--   v   number of this state, never used twice
--   p   payload, encrypted; '' when the event had none
--   fp  fingerprint of the payload; '' when unknown
--   st  wanted status: mapped | terminated | active
--   k   variant of the payload: Person | Company; '' when unknown
--   o   event order
--   l   lane: live | bulk
--   t   time of the newest event
--   t0  time of the first unsynced event
--   t1  time of the first event after the state was taken
--   ev  the event itself, encrypted
--   n   tries that ended in `unavailable`
--   n0  when the first of these tries ended
--   h   unexpected replies (409, 404) healed since this state was staged
--   tv  number of the state that was taken
--   tt  token of the worker that took it
--   tu  until when no other worker may take the record
--   lr  the ledger's row from before the state was taken; '' when there was none
-- stage.lua writes v to ev and t1, take.lua writes tv to lr, settle.lua writes n to h.
-- A hash with tt and tu alone, and an expiry, holds a record for which nothing is staged.
local s = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do s[flat[i]] = flat[i + 1] end
