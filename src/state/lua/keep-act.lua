-- Include: keeps an act for the audit trail until a process has written its line, if there is an
-- audit trail: this process has one ('1'), or any process has ever written one. Needs `now`.
local function keepAct(acts, heads, act, isConfigured)
  if isConfigured ~= '1' and redis.call('EXISTS', heads) == 0 then return 0 end
  redis.call('RPUSH', acts, string.format('%.0f ', now) .. act)
  return 1
end
