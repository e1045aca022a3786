-- Counts the changes that wait, by the places that records have noted beside them (record-store.ts). Of a line only
-- the first ones are looked at: these are the oldest, but for what the order of service moves.
--
-- KEYS  1 line:live  2 line:bulk  3 line:later
-- ARGV  1 prefix of the staged keys  2 how many of a line to look at
--       3 records fail "again and again" after this time, ms
-- Returns JSON (`Waiting` in line.ts).
--- @include "../../../base/lua/now.lua"
local lanes = { 'live', 'bulk' }
local found = {
  due = { live = redis.call('ZCARD', KEYS[1]), bulk = redis.call('ZCARD', KEYS[2]) },
  unsynced = {}, since = {}, firstDueAt = {}, lastDueAt = { live = 0, bulk = 0 },
  inFlight = 0, later = 0, sent = 0, retried = 0,
}
found.unsynced = { live = found.due.live, bulk = found.due.bulk }
local longest

-- `due` is when it comes back to its line; none for what stands in it.
local function look(crmCode, lane, due)
  local text = redis.call('HGET', ARGV[1] .. crmCode, 'place')
  if not text then
    found.missing = found.missing or crmCode
    return
  end
  local at = cjson.decode(text)
  if at.sent then
    found.sent = found.sent + 1
    if not due then found.unsynced[lane] = found.unsynced[lane] - 1 end
    return
  end
  if due then
    found.unsynced[at.lane] = found.unsynced[at.lane] + 1
    if at.taken then found.inFlight = found.inFlight + 1
    else
      found.later = found.later + 1
      found.lastDueAt[at.lane] = math.max(found.lastDueAt[at.lane], due)
      found.firstDueAt[at.lane] = math.min(found.firstDueAt[at.lane] or due, due)
    end
  end
  found.since[at.lane] = math.min(found.since[at.lane] or at.since, at.since)
  if at.failing and at.failing <= now - ARGV[3] then
    found.retried = found.retried + 1
    if not longest or at.failing < longest then
      longest, found.mostRetried = at.failing, crmCode
    end
  end
end

for n = 1, 2 do
  for _, crmCode in ipairs(redis.call('ZRANGE', KEYS[n], 0, ARGV[2] - 1)) do
    look(crmCode, lanes[n])
  end
end
local all = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
for n = 1, #all, 2 do look(all[n], nil, tonumber(all[n + 1])) end
if found.mostRetried then
  found.state = redis.call('HGET', ARGV[1] .. found.mostRetried, 'state') or nil
end
return cjson.encode(found)
