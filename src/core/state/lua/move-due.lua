-- Include: puts what waits for a later time and is due by `now` back to its place in its line, by its age.
-- `lines` are the keys of the lines live and bulk, `later` that of those that wait, `staged` the prefix of
-- the records' keys. A record whose change is gone is found at once.
for _, crmCode in ipairs(redis.call('ZRANGEBYSCORE', later, '-inf', now, 'LIMIT', 0, 100)) do
  local text = redis.call('HGET', staged .. crmCode, 'place')
  local at = text and cjson.decode(text) or { lane = 'live', place = 0 }
  redis.call('ZREM', later, crmCode)
  redis.call('ZADD', lines[at.lane], string.format('%.0f', at.place), crmCode)
end
