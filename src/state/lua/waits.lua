-- Tells whether anything is to be done: a job, a change that is not on the service, a proof.
--
-- KEYS  lists, then sorted sets
-- ARGV  1 how many of them are lists
-- Returns 1 when any has a member, else 0.
for i = 1, #KEYS do
  if redis.call(i <= tonumber(ARGV[1]) and 'LLEN' or 'ZCARD', KEYS[i]) > 0 then return 1 end
end
return 0
