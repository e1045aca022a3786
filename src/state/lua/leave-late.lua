-- Include: when a state was dropped, keeps what the next state of its record must know: that a
-- request may still arrive, and until when no worker may take the record.
local function leaveLate(key, verify, verifyMs, crmCode, dropped)
  -- A request that timed out may still arrive: no worker may take the record before that.
  if dropped.tu and tonumber(dropped.tu) > now then
    redis.call('HSET', key, 'tt', '', 'tu', dropped.tu)
    redis.call('PEXPIRE', key, math.ceil(dropped.tu - now))
  end
  -- A mark without a proof, as settle.lua leaves it.
  if dropped.lt or dropped.tv then redis.call('ZADD', verify, now + verifyMs, crmCode) end
end
