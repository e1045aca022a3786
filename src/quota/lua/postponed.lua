-- Include: takes a record out of those that wait for a retry. Needs KEYS as in count-changes.lua.
-- Returns its rank, or false.
local function endWait(record)
  if redis.call('ZREM', KEYS[2], record) == 0 then return false end
  local rank = redis.call('HGET', KEYS[3], record)
  redis.call('HDEL', KEYS[3], record)
  return rank
end

-- The rank that is served first; either may be absent.
local function better(a, b)
  if not a or not b then return a or b end
  return tonumber(a) <= tonumber(b) and a or b
end
