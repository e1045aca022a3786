-- Gives a taken state back.
--
-- KEYS  1 staged  2 ledger  3 unsynced:live  4 unsynced:bulk
-- ARGV  1 crmCode  2 token  3 row  4 finished  5 holdMs  6 payload  7 failed  8 healed
--   row       the new ledger row; 'before' restores the old one; '' leaves it uncertain
--   finished  '1' when this state is sent or given up
--   holdMs    for how long no worker may take the record, because a request may still arrive
--   payload   fetched from the service for a state that had none; '' none
--   failed    '+' counts one more try that ended in `unavailable`
--   healed    '+' counts one more healed reply
-- Returns 'lost' when another worker has taken the record over, 'more' when a newer state waits,
-- else 'settled'.
local crmCode, token, row, finished = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local holdMs = tonumber(ARGV[5])
--- @include "../../ops/lua/now.lua"
--- @include "staged-fields.lua"
if s.tt ~= token then return 'lost' end

if row ~= 'before' and row ~= '' then
  redis.call('HSET', KEYS[2], crmCode, row)
elseif row == 'before' and s.lr == '' then
  redis.call('HDEL', KEYS[2], crmCode)
elseif row == 'before' then
  redis.call('HSET', KEYS[2], crmCode, s.lr)
end

local newer = s.v ~= s.tv
if finished and not newer then
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
if holdMs > 0 then
  redis.call('HSET', KEYS[1], 'tt', '', 'tu', now + holdMs)
else
  redis.call('HDEL', KEYS[1], 'tt', 'tu')
end
if finished then
  redis.call('HSET', KEYS[1], 't0', s.t1 or s.t)
  redis.call('HDEL', KEYS[1], 't1', 'n', 'n0', 'h')
  redis.call('ZADD', s.l == 'live' and KEYS[3] or KEYS[4], s.t1 or s.t, crmCode)
  return 'more'
end
if ARGV[6] ~= '' and s.p == '' then redis.call('HSET', KEYS[1], 'p', ARGV[6]) end
if ARGV[7] == '+' then
  redis.call('HINCRBY', KEYS[1], 'n', 1)
  redis.call('HSETNX', KEYS[1], 'n0', now)
end
if ARGV[8] == '+' then redis.call('HINCRBY', KEYS[1], 'h', 1) end
return newer and 'more' or 'settled'
