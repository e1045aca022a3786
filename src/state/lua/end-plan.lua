-- Include: notes that a plan is not fed any more. If it is the one that is shown, another plan that
-- was begun and is not finished is shown in its place.
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
