-- Writes one listed page into the ledger. Rows that exist are newer than the listing and stay, but
-- rows that say "unknown" take over what the listing says.
--
-- KEYS  1 ledger  2 warm-up  3 warm-up:owner
-- ARGV  1 cursor of this page ('': the first)  2 cursor of the next page ('': this was the last)
--       3 for how long the caller goes on as the only one that lists, ms
--       4 when it was requested, ms  5... crmCode, row, crmCode, row, ...
-- Returns 1; 0 when the ledger was forgotten meanwhile, another process has listed this page, or a
-- relation of it was assumed to be absent meanwhile: the page must be requested again.
--- @include "../../ops/lua/now.lua"
if (redis.call('HGET', KEYS[2], 'cursor') or '') ~= ARGV[1] then return 0 end
if tonumber(redis.call('HGET', KEYS[2], 'forgotten') or 0) > tonumber(ARGV[4]) then return 0 end
local rows = {}
for i = 5, #ARGV, 2 do
  local known = redis.call('HGET', KEYS[1], ARGV[i])
  rows[i] = known and cjson.decode(known)
  -- The deletion was left out after the caller had looked for such rows (doubt-assumed.lua).
  if rows[i] and rows[i].a and rows[i].e == 0 and not cjson.decode(ARGV[i + 1]).x then return 0 end
end
for i = 5, #ARGV, 2 do
  local row = rows[i]
  if not row then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  elseif (row.e == -1 or row.a) and not row.u then
    local listed = cjson.decode(ARGV[i + 1])
    listed.w, listed.wf, listed.ws = row.w, row.wf, row.ws
    redis.call('HSET', KEYS[1], ARGV[i], cjson.encode(listed))
  end
end
redis.call('HINCRBY', KEYS[2], 'relations', (#ARGV - 4) / 2)
redis.call('HDEL', KEYS[2], 'failure')
if ARGV[2] == '' then
  redis.call('HSET', KEYS[2], 'state', 'done', 'at', now)
  redis.call('HDEL', KEYS[2], 'cursor', 'cold', 'lost')
else
  redis.call('HSET', KEYS[2], 'cursor', ARGV[2])
  redis.call('HSETNX', KEYS[2], 'state', 'running')
end
redis.call('PEXPIRE', KEYS[3], ARGV[3])
return 1
