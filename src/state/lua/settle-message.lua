-- Ends one try of a notification.
--
-- KEYS  1 notify:queue  2 notify:try
-- ARGV  1 the message's id  2 why it failed ('': it was sent)  3 pause before the next try, ms
--       4 after how long it is given up, ms  5 how long the failure is remembered, ms
--       6 '1': it goes behind the others that wait, because the receiver may accept these
-- Returns 'sent' | 'failed' | 'given_up' | 'gone': another process has ended it.
--- @include "../../ops/lua/now.lua"
local head = redis.call('LINDEX', KEYS[1], 0)
local message = head and cjson.decode(head)
local isHead = message and message.id == ARGV[1]
if ARGV[2] == '' then
  if not isHead then return 'gone' end
  redis.call('LPOP', KEYS[1])
  redis.call('DEL', KEYS[2])
  return 'sent'
end
if not isHead then return 'gone' end
redis.call('HSETNX', KEYS[2], 'since', now)
redis.call('HSET', KEYS[2], 'why', ARGV[2], 'due', now + ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
if now - message.at < tonumber(ARGV[4]) then
  if ARGV[6] == '1' and redis.call('LLEN', KEYS[1]) > 1 then
    redis.call('RPUSH', KEYS[1], redis.call('LPOP', KEYS[1]))
  end
  return 'failed'
end
redis.call('LPOP', KEYS[1])
return 'given_up'
