-- Takes the oldest notification for one try, if it is due. It stays where it is; if its process
-- dies, another one takes it after the lease.
--
-- notify:try  hash: of, the message's id; tries; due, ms; since and why, of the failure
--
-- KEYS  1 notify:queue  2 notify:try
-- ARGV  1 lease, ms
-- Returns the message as JSON and how often it was tried before; nothing while none is due.
--- @include "../../ops/lua/now.lua"
local head = redis.call('LINDEX', KEYS[1], 0)
if not head then return {} end
local id = cjson.decode(head).id
local try = redis.call('HMGET', KEYS[2], 'of', 'tries', 'due')
local isSame = try[1] == id
if isSame and now < tonumber(try[3]) then return {} end
local tries = isSame and tonumber(try[2]) or 0
redis.call('HSET', KEYS[2], 'of', id, 'tries', tries + 1, 'due', now + ARGV[1])
return { head, tries }
