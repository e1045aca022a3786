-- Include: leaves of a state that was dropped (s) what the next state of its record must know of.
local function leaveLate(key, verify, proofs, verifyMs, crmCode, s)
  -- A request that timed out may still arrive: no worker may take the record before that.
  if s.tu and tonumber(s.tu) > now then
    redis.call('HSET', key, 'tt', '', 'tu', s.tu)
    redis.call('PEXPIRE', key, math.ceil(s.tu - now))
  end
  -- As settle.lua does without a proof.
  if s.lt or s.tv then
    redis.call('ZADD', verify, now + verifyMs, crmCode)
    redis.call('HDEL', proofs, crmCode)
  end
end
