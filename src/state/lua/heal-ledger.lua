-- Corrects rows of the ledger by what the service was seen to hold. What was proven since then, or
-- may be changing now, stays.
--
-- KEYS  1 ledger  2 warm-up
-- ARGV  1 when the service was asked, ms  2... crmCode, row, crmCode, row, ...
-- Returns how many rows were written.
-- The ledger was forgotten since: a row would be taken for newer than the list that warms it.
if tonumber(redis.call('HGET', KEYS[2], 'forgotten') or 0) > tonumber(ARGV[1]) then return 0 end
local healed = 0
for i = 2, #ARGV, 2 do
  local known = redis.call('HGET', KEYS[1], ARGV[i])
  local row = known and cjson.decode(known)
  local seen = cjson.decode(ARGV[i + 1])
  -- A relation that has no row, and that the service does not have, needs no row.
  local isNew = not row and seen.e == 1
  local mayHeal = row and not row.u and row.s < tonumber(ARGV[1])
  local differs = row and
    (row.e ~= seen.e or row.f ~= seen.f or row.x ~= seen.x or row.k ~= seen.k)
  if isNew or (mayHeal and differs) then
    if row then
      seen.w, seen.wf, seen.ws = row.w, row.wf, row.ws
      -- A list may be another tenant's, or cut: nothing is dropped because of what it alone says.
      seen.u = 1
      -- The warm-up makes up for this record's deletion (doubt-assumed.lua): it must find the row.
      if row.a then
        seen = { e = -1, w = row.w, wf = row.wf, ws = row.ws, a = row.a, s = seen.s }
      end
    end
    redis.call('HSET', KEYS[1], ARGV[i], cjson.encode(seen))
    healed = healed + 1
  end
end
return healed
