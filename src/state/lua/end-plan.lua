-- A plan is not fed any more: another one that was begun and not finished is shown.
local function endPlan(feedingKey, unfinishedKey, id, ttlS)
  redis.call('HDEL', unfinishedKey, id)
  if redis.call('HGET', feedingKey, 'plan') ~= id then return end
  redis.call('DEL', feedingKey)
  local other, text = unpack(redis.call('HGETALL', unfinishedKey))
  if not other then return end
  local plan = cjson.decode(text)
  redis.call('HSET', feedingKey, 'plan', other, 'entries', plan.entries, 'done', plan.done,
    'requests', plan.requests)
  redis.call('EXPIRE', feedingKey, ttlS)
end
