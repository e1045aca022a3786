/**
 * The scripts that change what is staged and the ledger together. Each runs alone in Redis, so
 * between any two of them a process may die and nothing is half done.
 *
 * Fields of a staged hash:
 *   v  number of this state, never used twice   p   payload, sealed; "" when the event had none
 *   fp fingerprint of the payload, "" unknown   st  mapped | terminated | active: wanted status
 *   k  variant of the payload                   o   event order
 *   l  lane                                     t   time of the newest event, ms
 *   t0 time of the first unsynced event, ms     t1  of the first one after the state was taken
 *   ev the event itself, sealed                 n   tries that ended in `unavailable`
 *   n0 when the first of those ended, ms        h   surprises healed (409, 404) since it was taken
 *   tv state that was taken                     tt  token of who took it
 *   tu until when nobody else may take it, ms   lr  ledger row before it was taken
 * A hash of tt and tu alone, with an expiry, is the hold of a record with nothing staged.
 */
import { FIELDS, NOW, OLDER } from "./lua.ts";

/**
 * KEYS seen:<day>…
 * ARGV eventKey…, at most a thousand: all of them are unpacked onto Lua's stack.
 * Returns 0|1 for each. A script, since a pipeline of ioredis is a copy of all its commands.
 */
export const SEEN = `
local flags = {}
for i = 1, #ARGV do flags[i] = 0 end
for _, day in ipairs(KEYS) do
  for i, flag in ipairs(redis.call('SMISMEMBER', day, unpack(ARGV))) do
    if flag == 1 then flags[i] = 1 end
  end
end
return flags
`;

/**
 * KEYS staged ledger warm-up versions unsynced:live unsynced:bulk dead seen:<today> seen:<earlier>…
 * ARGV crmCode eventKey order payload fingerprint status variant lane time event seenTtl deadId seenMax
 * Returns {result, coalesced 0|1, hasten 0|1}; hasten: its job waits longer than this state should,
 * in the bulk lane or for the retry of an older state.
 */
export const STAGE = `
local crmCode, eventKey, order, payload, fingerprint = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local status, variant, lane, time, event = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
${OLDER}
${NOW}
if eventKey ~= '' then
  for i = 8, #KEYS do
    if redis.call('SISMEMBER', KEYS[i], eventKey) == 1 then
      return {'duplicate', 0, 0}
    end
  end
  -- Past the bound a repeated event is told by its order alone.
  if redis.call('SCARD', KEYS[8]) < tonumber(ARGV[13]) then
    redis.call('SADD', KEYS[8], eventKey)
    redis.call('EXPIRE', KEYS[8], ARGV[11])
  end
end
${FIELDS}
local row = redis.call('HGET', KEYS[2], crmCode)
row = row and cjson.decode(row) or nil

if (row and row.w and older(order, row.w)) or (s.o and older(order, s.o)) then
  return {'superseded', 0, 0}
end
-- A letter of a newer event tells of what is wrong with the record now: it stays.
local letter = redis.call('HGET', KEYS[7], ARGV[12])
if letter and not older(order, cjson.decode(letter).order) then
  redis.call('HDEL', KEYS[7], ARGV[12])
end
redis.call('HDEL', KEYS[7], 'e:' .. eventKey)

local taken = s.tv ~= nil
local pending = s.v ~= nil and s.v ~= s.tv
local held = payload
if held == '' and s.v then held = s.p end

-- What the ledger is sure of needs no request, however long the quota is exhausted.
local absent = (row and row.e == 0) or (not row and redis.call('HGET', KEYS[3], 'state') == 'done')
local certain = (row and row.e ~= -1 and not row.u) or (not row and absent)
local settled = nil
if certain then
  if payload ~= '' and not absent and row.f == fingerprint then settled = 'unchanged'
  elseif status == 'terminated' and (absent or row.x) then settled = 'nothing_to_terminate'
  elseif status == 'active' and held == '' and not absent and not row.x then settled = 'unchanged'
  end
end
if settled then
  row = row or { e = 0 }
  row.w = order
  row.s = now
  redis.call('HSET', KEYS[2], crmCode, cjson.encode(row))
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[5], crmCode)
  redis.call('ZREM', KEYS[6], crmCode)
  return {settled, pending and 1 or 0, 0}
end

local newLane = (s.v and s.l == 'live') and 'live' or lane
local promoted = s.v and s.l == 'bulk' and newLane == 'live'
local hasten = promoted or s.n
redis.call('HSET', KEYS[1], 'v', redis.call('INCR', KEYS[4]), 'p', held, 'fp', fingerprint,
  'st', status, 'k', variant ~= '' and variant or (s.k or ''), 'o', order, 'l', newLane,
  't', time, 'ev', event)
redis.call('HDEL', KEYS[1], 'n', 'n0', 'h')
redis.call('PERSIST', KEYS[1])
if not s.t0 then redis.call('HSET', KEYS[1], 't0', time) end
if taken and not s.t1 then redis.call('HSET', KEYS[1], 't1', time) end
if promoted then redis.call('ZREM', KEYS[6], crmCode) end
redis.call('ZADD', newLane == 'live' and KEYS[5] or KEYS[6], 'NX', s.t0 or time, crmCode)
return {'staged', pending and 1 or 0, hasten and 1 or 0}
`;

/**
 * KEYS staged ledger warm-up
 * ARGV crmCode token holdMs
 * Returns {} when nothing is staged, {'busy', until} while another holds it, or
 * {'taken', row or '', 'done' when absence can be trusted, field, value, …}.
 */
export const TAKE = `
local crmCode, token = ARGV[1], ARGV[2]
${NOW}
${FIELDS}if not s.v then return {} end
if s.tu and tonumber(s.tu) > now and s.tt ~= token then return {'busy', s.tu} end

-- From here on a crash leaves the row uncertain, and an uncertain row is never trusted. This
-- state may then be on the service, whatever becomes of it here: nothing older may follow it.
local before = redis.call('HGET', KEYS[2], crmCode)
local warm = redis.call('HGET', KEYS[3], 'state') or ''
local row = before and cjson.decode(before) or { e = warm == 'done' and 0 or -1, s = now }
-- No row would mean absent as soon as the ledger is warm, also when its listing met this one.
local restored = before or (warm == 'done' and '' or cjson.encode(row))
row.u = 1
row.w = s.o
redis.call('HSET', KEYS[2], crmCode, cjson.encode(row))
redis.call('HSET', KEYS[1], 'tv', s.v, 'tt', token, 'tu', now + ARGV[3], 'lr', restored)
redis.call('HDEL', KEYS[1], 't1')
local reply = {'taken', before or '', warm}
for _, value in ipairs(flat) do reply[#reply + 1] = value end
return reply
`;

/**
 * KEYS staged ledger unsynced:live unsynced:bulk
 * ARGV crmCode token row remove holdMs payload tries heals
 *   row     new ledger row; 'before' puts back what was there; '' leaves it uncertain
 *   remove  '1' when this state is finished with, whether sent or given up
 *   holdMs  how long nobody may take the record, for a request that may still arrive
 *   payload fetched from the service for a state that had none; '' none
 *   tries   '+' counts one more that ended in 'unavailable'; heals likewise
 * Returns {'lost'} when the hold has passed to another, else {'settled' | 'more'}: more when a
 * newer state waits.
 */
export const SETTLE = `
local crmCode, token, row, remove, holdMs = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
${NOW}
${FIELDS}if s.tt ~= token then return {'lost'} end

if row == 'before' then
  if s.lr == '' then redis.call('HDEL', KEYS[2], crmCode)
  else redis.call('HSET', KEYS[2], crmCode, s.lr) end
elseif row ~= '' then
  redis.call('HSET', KEYS[2], crmCode, row)
end

local newer = s.v ~= s.tv
if remove == '1' and not newer then
  redis.call('DEL', KEYS[1])
  if holdMs > 0 then
    redis.call('HSET', KEYS[1], 'tt', '', 'tu', now + holdMs)
    redis.call('PEXPIRE', KEYS[1], holdMs)
  end
  redis.call('ZREM', KEYS[3], crmCode)
  redis.call('ZREM', KEYS[4], crmCode)
  return {'settled'}
end

redis.call('HDEL', KEYS[1], 'tv', 'lr')
if holdMs > 0 then
  redis.call('HSET', KEYS[1], 'tt', '', 'tu', now + holdMs)
else
  redis.call('HDEL', KEYS[1], 'tt', 'tu')
end
if remove == '1' then
  redis.call('HSET', KEYS[1], 't0', s.t1 or s.t)
  redis.call('HDEL', KEYS[1], 't1', 'n', 'n0', 'h')
  redis.call('ZADD', s.l == 'live' and KEYS[3] or KEYS[4], s.t1 or s.t, crmCode)
  return {'more'}
end
if ARGV[6] ~= '' and s.p == '' then redis.call('HSET', KEYS[1], 'p', ARGV[6]) end
if ARGV[7] == '+' then
  redis.call('HINCRBY', KEYS[1], 'n', 1)
  redis.call('HSETNX', KEYS[1], 'n0', now)
end
if ARGV[8] == '+' then redis.call('HINCRBY', KEYS[1], 'h', 1) end
return {newer and 'more' or 'settled'}
`;
