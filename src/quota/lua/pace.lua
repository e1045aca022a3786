-- Include: reads the pace hash at KEYS[1] as table `pace`, all fields as numbers.
--
-- Fields of the pace hash (times in ms):
--   stop      until when no process sends, after a 429
--   failures  stops by a 429 since the last other reply
--   turn      when the last turn of even spreading was due: in the future, if taken early
--   tat       when the steady bucket is full again (the "theoretical arrival time" of GCRA)
--   steady    until when pacing is steady
--   proven    until when bursts count as allowed
--   level     tokens, counted by replies, that a bucket of `burst` tokens would hold if it were
--             refilled at the hour's rate
--   at        when `level` was counted
--   trip      longest time from permit to reply while pacing was probing
--   eased     replies accepted while such a bucket would have been about empty
--   unanswered  when the last request ended without a reply
-- claim-turn.lua writes turn and tat; return-turn.lua takes them back. answered.lua writes proven,
-- and level to eased, and ends failures. throttled.lua writes stop, failures, steady and tat, and
-- deletes proven, and level to eased. unanswered.lua writes unanswered.
local pace = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do pace[flat[i]] = tonumber(flat[i + 1]) end
