-- Takes the staged state of one record for one worker.
--
-- KEYS  1 staged  2 ledger  3 warm-up  4 verify  5 kept-fields  6 bulk:pause
--       7 unsynced:live  8 unsynced:bulk
--       9 optional: lock of the pointer job, without which the worker may not take the record
-- ARGV  1 crmCode  2 token of the worker  3 holdMs
-- Returns { 'locked' } when another worker has that lock; {} when nothing is staged, or only a
-- person may release it; { 'lost' } when a change waited and its key was deleted or evicted: it
-- waits no longer; { 'paused' } when it is a bulk change and an operator has paused that lane;
-- { 'busy', until } while another worker holds the record; or { 'taken', row ('': none), state of
-- the warm-up ('done': warm; '': also after an empty list), kept fields of the mapping ('': none),
-- field, value, ... }.
local crmCode, token = ARGV[1], ARGV[2]
--- @include "../../ops/lua/now.lua"
--- @include "read-warm-up.lua"
--- @include "staged-fields.lua"
if KEYS[9] and redis.call('GET', KEYS[9]) ~= token then return { 'locked' } end
if not s.v then
  local waited = redis.call('ZREM', KEYS[7], crmCode) + redis.call('ZREM', KEYS[8], crmCode)
  return waited > 0 and { 'lost' } or {}
end
if s.hv == s.v then return {} end
if s.l == 'bulk' and redis.call('EXISTS', KEYS[6]) == 1 then return { 'paused' } end
if s.tu and tonumber(s.tu) > now and s.tt ~= token then return { 'busy', s.tu } end

-- After a crash from here on the row stays uncertain, and nothing trusts an uncertain row. This
-- state may then be on the service, so nothing older may follow it: move the watermark too.
local before = redis.call('HGET', KEYS[2], crmCode)
local warm, listed, cursor = readWarmUp(KEYS[2], KEYS[3])
-- An empty list is weak evidence (stage.lua): the service is asked. A deletion that was left out
-- because of such a list is no longer made up for, because this state is newer.
if not warm or listed == '0' or cursor then warm = '' end
local row = before and cjson.decode(before) or { e = warm == 'done' and 0 or -1, s = now }
local known = before or ''
if row.a then
  row.e, row.a = -1, nil
  known = cjson.encode(row)
end
-- In a cold ledger a restored "no row" would mean "absent" once the warm-up ends, even if the
-- listing has met this relation: restore a row that says "unknown".
local restored = before or (warm == 'done' and '' or cjson.encode(row))
row.u = 1
row.w = s.o
row.wf, row.ws = nil, nil
if s.of then row.wf, row.ws = s.of, s.st end
redis.call('HSET', KEYS[2], crmCode, cjson.encode(row))
redis.call('HSET', KEYS[1], 'tv', s.v, 'tt', token, 'tu', now + ARGV[3], 'lr', restored)
-- The kept values (kv) are for this run alone: a later run must read them again.
redis.call('HDEL', KEYS[1], 't1', 'a1', 'kv', 'kt')
local reply = { 'taken', known, warm, redis.call('GET', KEYS[5]) or '' }
for name, value in pairs(s) do
  reply[#reply + 1] = name
  reply[#reply + 1] = value
end
-- A worker that never settled may have left a request behind, and what is to be verified may still
-- be overwritten.
if not s.lt and (s.tv or redis.call('ZSCORE', KEYS[4], crmCode)) then
  redis.call('HSET', KEYS[1], 'lt', '1')
  reply[#reply + 1] = 'lt'
  reply[#reply + 1] = '1'
end
return reply
