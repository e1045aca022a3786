-- Stages the newest states of some records, in their order, or settles each at once when the
-- ledger proves that it needs no request (decide.ts decides the same from a taken state). What is
-- wrong with one record does not keep the others from being staged.
--
-- KEYS  1 ledger  2 warm-up  3 versions  4 unsynced:live  5 unsynced:bulk  6 dead-letters
--       7 terminations:held  8 kept-fields  9 seen:<this week>  10 seen:<last week>
--       11...19 of the queue of pointer jobs, as add-job.lua takes them
--       20...23 of the demand, as count-changes.lua takes them
--       24 verify  25 ledger:forgotten
--       and for each state: staged  erased  history  history:codes
-- ARGV  1 time to live of a bucket of seen events, s  2 most events in one
--       3 prefix of the keys of the queue of pointer jobs ('': no job is added, nothing counted)
--       4 priority of a live job  5 of a bulk job  6 channel that tells of new jobs
--       7 sliceMs  8 hourMs  9 most live jobs that wait
--       10 while fewer bulk records wait, each has its job at once
--       11 the mapping's kept fields, written if Redis does not know any ('': not)
--       and for each state:
--       1 crmCode  2 eventKey ('': not remembered)  3 order  4 payload ('': none)  5 fingerprint
--       6 status  7 variant  8 lane  9 time, ms  10 event ('': packed into the payload)
--       11 id of the record's dead letter
--       12 order of the event that the payload is from ('': this one; '-': none, it was fetched);
--          without a payload '+' if the event brought a record, which was not usable
--       13 order of `event` ('': this one)
--       14 for how long history is kept, ms ('': not)
--       15 origin, and 16 rest of the body of its step (note-step.lua)
--       17 id of the record's job ('': it is added later)
--       18 slot of the record  19 trace of its job ('': none)
-- Returns for each state { result, coalesced 0 | 1, expedite 0 | 1, needsJob 0 | 1 | 2, lane }, or
-- { 'error', why it could not be staged }.
--   result    staged | held | unchanged | nothing_to_terminate | superseded | duplicate
--             held: it replaced a held termination, and is one itself
--   expedite  1 when the record's job waits longer than this state should: in the lane bulk, or for
--             the retry of an older state
--   needsJob  1 when no job of the record waited and it is added in this step; 2 when it is added
--             later, because enough jobs wait
--   lane      in which it waits, of what was staged: a live record stays live
--- @include "../../ops/lua/now.lua"
--- @include "older.lua"
--- @include "whole-order.lua"
--- @include "short-order.lua"
--- @include "count-out.lua"
--- @include "agrees.lua"
--- @include "note-step.lua"
--- @include "note-code.lua"
--- @include "move-history.lua"
--- @include "hold-step.lua"
--- @include "seen-place.lua"
--- @include "add-job.lua"
--- @include "read-warm-up.lua"
--- @include "room-for-jobs.lua"
--- @include "../../quota/lua/count-changes.lua"
local SHARED_KEYS, SHARED_ARGS = 25, 11
local KEYS_EACH, ARGS_EACH = 4, 19
local RESULT_CODES = {
  staged = 's', held = 'h', unchanged = 'u', nothing_to_terminate = 'n', superseded = 'o',
}

-- What is left of the room for jobs in each lane.
local room = ARGV[3] ~= '' and roomForJobs(KEYS[14], KEYS[5], tonumber(ARGV[4]), tonumber(ARGV[9]),
  tonumber(ARGV[10])) or {}

-- The worker that takes a state needs the kept fields, also after Redis has lost everything.
if ARGV[11] ~= '' then redis.call('SET', KEYS[8], ARGV[11], 'NX') end

-- What all states share is read once: calling a command from Lua costs more than most commands do.
-- Nothing below makes a dead letter, warms the ledger or forgets it: what was read stays true.
local stateCount = (#ARGV - SHARED_ARGS) / ARGS_EACH
local isWarm = readWarmUp(KEYS[1], KEYS[2]) == 'done'
local hasLetters = redis.call('EXISTS', KEYS[6]) == 1
local isForgetting = redis.call('EXISTS', KEYS[25]) == 1
local arrival = string.format('%d', now)

-- A number that no other state has.
local version = nil
local function nextVersion()
  version = version or redis.call('INCRBY', KEYS[3], stateCount) - stateCount
  version = version + 1
  return string.format('%d', version)
end

-- KEYS  1 staged  2 ledger  3 warm-up  4 versions  5 unsynced:live  6 unsynced:bulk  7 dead-letters
--       8 erased  9 terminations:held  10 history  11 history:codes
--       12 verify  13 ledger:forgotten
-- ARGV  those of the state.
local function stage(KEYS, ARGV)
  local crmCode, eventKey, order, payload, fingerprint = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
  local status, variant, lane, time, event = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
  local heldList, history, historyCodes = KEYS[9], KEYS[10], KEYS[11]
  local function finish(result, coalesced, expedite, needsJob, isNoted, waitsAs)
    if not isNoted then
      local body = RESULT_CODES[result] .. (coalesced and 'c' or '') .. ARGV[16]
      moveHistory(KEYS[1], history, ARGV[14])
      noteStep(history, ARGV[14], ARGV[15], 'E', '', body)
    end
    noteCode(historyCodes, ARGV[14], crmCode, ARGV[15])
    return { result, coalesced and 1 or 0, expedite and 1 or 0, needsJob or 0, waitsAs }
  end

--- @include "staged-fields.lua"
--- @include "staged-pieces.lua"
  local row = redis.call('HGET', KEYS[2], crmCode)
  row = row and cjson.decode(row) or nil
  -- `crmsync forget` has erased the row: whether the relation exists is unknown, its order is not.
  local erased = not (row and row.w) and redis.call('GET', KEYS[8])
  if erased then
    erased = cjson.decode(erased)
    row = row or { e = -1, s = erased.s }
    row.w, row.wf, row.ws = erased.w, erased.wf, erased.ws
  end
  -- The ledger is being forgotten: what was settled stays the newest (keep-watermarks.lua).
  local forgotten = isForgetting and not (row and row.w) and redis.call('HGET', KEYS[13], crmCode)
  if forgotten then
    forgotten = cjson.decode(forgotten)
    row = row or { e = -1, s = forgotten.s }
    row.w, row.wf, row.ws = forgotten.w, forgotten.wf, forgotten.ws
  end
--- @include "known-orders.lua"
  local ownOrder, eventOrder = order, ARGV[13] ~= '' and ARGV[13] or order
  local fieldsOrder = ''
  if payload ~= '' and ARGV[12] ~= '-' then fieldsOrder = ARGV[12] ~= '' and ARGV[12] or order end
  -- Order of the fields that the event brings itself; '': it brings none.
  local ownFields = fieldsOrder == eventOrder and fieldsOrder or ''
  local hasFields = payload ~= '' and not older(fieldsOrder, newestFields) and
    -- What was fetched does not replace fields that wait.
    (ownFields ~= '' or s.p == '')
  local isOlder = older(order, newest)
  if not hasFields and (isOlder or (order == newest and payload ~= '')) then
    -- A record that stays erased gets no history.
    return erased and { 'superseded', 0, 0 } or finish('superseded')
  end
  if payload ~= '' and not hasFields then
    -- Of this event only the status is the newest. The event is packed in `payload`.
    payload, event, fingerprint, variant = '', payload, '', ''
  end
  if isOlder then
    -- The newest event brought no record: this event's fields are the newest, its status is not.
    fingerprint = ''
    if s.o == newest then
      order, status, time = s.o, s.st, s.t
      if s.ev ~= '' then event = s.ev end
    else order, status = row.w, row.ws end
  end
  if payload == '' then fieldsOrder = s.v and (s.of or s.o) or newestFields end

  if erased then
    redis.call('HSET', KEYS[2], crmCode, cjson.encode(row))
    redis.call('DEL', KEYS[8])
  end

  local deadLetter, ofEvent = false, false
  if hasLetters then
    deadLetter, ofEvent = unpack(redis.call('HMGET', KEYS[7], ARGV[11], 'e:' .. eventKey))
  end
  local dead = deadLetter and cjson.decode(deadLetter) or nil
  local function dropLetter()
    redis.call('HDEL', KEYS[7], ARGV[11])
    countOut(KEYS[7], deadLetter)
    deadLetter = nil
  end
  if dead then
    -- The dead letter is of a newer event, and that event decides the status.
    if payload ~= '' and dead.st and older(order, dead.order) then
      order, status, fingerprint = dead.order, dead.st, ''
    end
    -- Keep a newer letter: it tells what is wrong with the record now. Keep a letter with newer
    -- fields: it has the only copy of them. (A letter without `of`, of an older release, counts as
    -- one without fields.)
    local fields = dead.of or ''
    if not older(order, dead.order) then
      if not older(ownFields, fields) or older(fields, newestFields) then
        dropLetter()
      elseif dead.eo and dead.st ~= status and older(dead.order, order) then
        -- This event's status is newer: the letter keeps only what belongs to its fields.
        dead.order, dead.eo, dead.st = dead.of, nil, nil
        redis.call('HSET', KEYS[7], ARGV[11], cjson.encode(dead))
      end
    end
  end
  if ofEvent then
    redis.call('HDEL', KEYS[7], 'e:' .. eventKey)
    countOut(KEYS[7], ofEvent)
  end

  local taken = s.tv ~= nil
  local pending = s.v ~= nil and s.v ~= s.tv
  local held = payload
  -- The fields that wait stay; but not with a redriven event whose fields are newer and not usable.
  if held == '' and s.v and not (ARGV[12] == '+' and ARGV[13] ~= '') then
    held = s.p
    -- The event that brought these fields stays with them, in p, unless the newer one has a record.
    if held ~= '' and ARGV[12] ~= '+' and (s.oe or s.o) == (s.of or s.o) then
      eventOrder = s.oe or s.o
    end
  end

  -- When the ledger proves that no request is needed, the state is settled here, also while the
  -- quota is exhausted.
  local absent = (row and row.e == 0) or (not row and isWarm)
  local known = (row and row.e ~= -1 and not row.u) or (not row and absent)
  -- While a request is under way (tv), or an earlier one may still take effect (lt, or the mark of
  -- an earlier state), what is proven must be verified later: a worker must take the state.
  local certain = known and not s.lt and not s.tv and not redis.call('ZSCORE', KEYS[12], crmCode)
  local settled = nil
  if certain then
    -- A terminated relation takes newer fields, but not those of the other variant.
    local ended = row and row.x and (held == '' or agrees(fingerprint, row.f) or
      (payload ~= '' and row.k and row.k ~= string.sub(variant, 1, 1)))
    if status == 'terminated' and (absent or ended) then
      settled = 'nothing_to_terminate'
    elseif payload ~= '' and not absent and agrees(fingerprint, row.f) then
      settled = 'unchanged'
    elseif status == 'active' and held == '' and not absent and not row.x then
      settled = 'unchanged'
    end
  end
  if settled then
    -- The record has ended: what was wrong with its fields no longer matters.
    if settled == 'nothing_to_terminate' and deadLetter and not older(order, dead.order) then
      dropLetter()
    end
    -- An empty list is weak evidence. `a` marks the row: if the next list has the relation, the
    -- deletion is made up for (doubt-assumed.lua).
    if not row then
      local listed, cursor = unpack(redis.call('HMGET', KEYS[3], 'relations', 'cursor'))
      row = { e = 0, a = (listed == '0' or cursor) and 1 or nil }
    end
    row.w = order
    row.wf, row.ws = nil, nil
    if fieldsOrder ~= order then row.wf, row.ws = fieldsOrder, status end
    -- The service was not asked, so `s` stays. An absent relation's row gets a new time all the
    -- same: old ones are deleted, and its watermark must stay.
    if row.e == 0 or not row.s then row.s = now end
    redis.call('HSET', KEYS[2], crmCode, cjson.encode(row))
    moveHistory(KEYS[1], history, ARGV[14])
    redis.call('DEL', KEYS[1])
    redis.call('ZREM', KEYS[5], crmCode)
    redis.call('ZREM', KEYS[6], crmCode)
    redis.call('ZREM', heldList, crmCode)
    return finish(settled, pending)
  end

  -- The events that may be sent again once `crmsync bulk cancel` has dropped this state.
  local eventKeys = eventKey
  if s.v and s.ek and payload == '' and s.p ~= '' then
    eventKeys = string.match(s.ek, '%S*') .. ' ' .. eventKey
  elseif s.v and s.ek and order == s.o and ownOrder ~= s.o then
    eventKeys = eventKey .. ' ' .. string.match(s.ek, '%S*$')
  end
  local newLane = (s.v and s.l == 'live') and 'live' or lane
  local promoted = s.v and s.l == 'bulk' and newLane == 'live'
  local expedite = promoted or s.n
  local number = nextVersion()
  local fields = { 'v', number, 'fp', fingerprint, 'k', variant ~= '' and variant or (s.k or ''),
    'o', shortOrder(order), 't', time }
  local gone = { 'n', 'n0', 'h', 'b', 'c', 'd' }
  -- Sets a field, or removes it: without a value, the field's absence says the same.
  local function put(name, value)
    if value then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    else
      gone[#gone + 1] = name
    end
  end
  put('st', status ~= 'mapped' and status)
  put('l', newLane ~= 'live' and newLane)
  put('t0', s.t0 ~= time and s.t0)
  put('ek', newLane == 'bulk' and eventKeys ~= '' and eventKeys)
  put('of', fieldsOrder ~= order and shortOrder(fieldsOrder))
  put('oe', eventOrder ~= order and shortOrder(eventOrder))
  local forPerson = s.v and s.hv == s.v
  local needsJob = 0
  if (not pending or forPerson) and ARGV[17] ~= '' then
    needsJob = room[newLane] > 0 and 1 or 2
    room[newLane] = room[newLane] - 1
  end
  -- The job that is added later gets its trace from here.
  put('tr', (taken or s.tr or needsJob == 2) and ARGV[19] ~= '' and ARGV[19])
  if payload ~= '' then gone[#gone + 1] = 'pf' end
  addPieces(fields, 'p', held)
  addPieces(fields, 'ev', event)
  if taken and not s.t1 then
    for _, value in ipairs({ 't1', time, 'a1', arrival }) do fields[#fields + 1] = value end
  end
  local isKnown = #flat > 0
  local isNoted = not isKnown and
    addHeldStep(fields, history, ARGV[14], ARGV[15], RESULT_CODES.staged .. ARGV[16])
  redis.call('HSET', KEYS[1], unpack(fields))
  -- Where no hash was there, nothing is to be removed.
  if isKnown then
    redis.call('HDEL', KEYS[1], unpack(gone))
    redis.call('PERSIST', KEYS[1])
  end
  -- A termination that replaces another one is held, or approved, as the replaced one was.
  if s.ok and status ~= 'terminated' then redis.call('HDEL', KEYS[1], 'ok') end
  if forPerson and status == 'terminated' then
    redis.call('HSET', KEYS[1], 'hv', number)
    return finish('held', true)
  end
  if s.hv then redis.call('HDEL', KEYS[1], 'hv') end
  if isKnown then redis.call('ZREM', heldList, crmCode) end
  -- The wait counts from the arrival: the event's time may lie years back, or be a wrong clock's.
  local since = isKnown and
    (redis.call('ZSCORE', KEYS[5], crmCode) or redis.call('ZSCORE', KEYS[6], crmCode))
  if promoted then redis.call('ZREM', KEYS[6], crmCode) end
  redis.call('ZADD', newLane == 'live' and KEYS[5] or KEYS[6], 'NX', since or arrival, crmCode)
  return finish('staged', pending, expedite, needsJob, isNoted, newLane)
end

-- Which event keys were seen before this call, or belong to a state that it has staged.
local seen, places, results, fresh = {}, {}, {}, {}
for i = SHARED_ARGS + 2, #ARGV, ARGS_EACH do
  local eventKey = ARGV[i]
  if eventKey ~= '' and not places[eventKey] then
    local bucket, member = seenPlace(eventKey)
    places[eventKey] = { bucket, member }
    seen[eventKey] = redis.call('SISMEMBER', KEYS[9] .. bucket, member) == 1 or
      redis.call('SISMEMBER', KEYS[10] .. bucket, member) == 1
  end
end

for n = 1, stateCount do
  local firstKey = SHARED_KEYS + (n - 1) * KEYS_EACH
  local firstArg = SHARED_ARGS + (n - 1) * ARGS_EACH
  local eventKey = ARGV[firstArg + 2]
  if seen[eventKey] then
    results[n] = { 'duplicate', 0, 0, 0 }
  else
    local done, result = pcall(stage, {
      KEYS[firstKey + 1], KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6],
      KEYS[firstKey + 2], KEYS[7], KEYS[firstKey + 3], KEYS[firstKey + 4], KEYS[24], KEYS[25],
    }, { unpack(ARGV, firstArg + 1, firstArg + ARGS_EACH) })
    results[n] = done and result
      or { 'error', type(result) == 'table' and result.err or tostring(result) }
    if done and eventKey ~= '' then
      seen[eventKey] = true
      fresh[#fresh + 1] = eventKey
    end
  end
end

-- A change is counted before its job is added: the worker that gets the job takes the record out of
-- the order of service, so the record must be in it by then.
local queue = ARGV[3]
if queue ~= '' then
  local jobs, changes, waits, urgent = {}, { ARGV[7], ARGV[8] }, false, false
  local ended = {}
  for n, result in ipairs(results) do
    local first = SHARED_ARGS + (n - 1) * ARGS_EACH
    local isLive = result[5] == 'live'
    if result[1] == 'staged' then
      ended[ARGV[first + 1]] = nil
    elseif result[2] == 1 and (result[1] == 'unchanged' or result[1] == 'nothing_to_terminate') then
      ended[ARGV[first + 1]] = true
    end
    if result[1] == 'staged' and ARGV[first + 17] ~= '' then
      if isLive then
        changes[#changes + 1], changes[#changes + 2] = ARGV[first + 1], ARGV[first + 18]
      end
      if result[4] == 1 then jobs[#jobs + 1] = { first, isLive } end
      if result[4] > 0 then waits, urgent = true, urgent or isLive end
    end
  end
  if #changes > 2 then countChanges({ unpack(KEYS, 20, 23) }, changes) end
  -- A record that no longer waits leaves the order of service: missing jobs are looked for in it.
  for crmCode in pairs(ended) do
    redis.call('ZREM', KEYS[20], crmCode)
    redis.call('ZREM', KEYS[21], crmCode)
    redis.call('HDEL', KEYS[22], crmCode)
  end
  local queueKeys = { unpack(KEYS, 11, 19) }
  for _, job in ipairs(jobs) do
    local first, isLive = unpack(job)
    addPointer(queueKeys, queue, ARGV[first + 17], ARGV[first + 1],
      isLive and ARGV[4] or ARGV[5], ARGV[first + 19])
  end
  if waits then redis.call('PUBLISH', ARGV[6], urgent and 'live' or 'bulk') end
end

-- Past the limit, only the event order recognises a repeated event.
for _, eventKey in ipairs(fresh) do
  local bucket, member = unpack(places[eventKey])
  local size = redis.call('SCARD', KEYS[9] .. bucket)
  if size < tonumber(ARGV[2]) then redis.call('SADD', KEYS[9] .. bucket, member) end
  if size == 0 then redis.call('EXPIRE', KEYS[9] .. bucket, ARGV[1]) end
end
return results
