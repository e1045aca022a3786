-- Include: how far the warm-up got. A ledger with less than half of the relations that were listed
-- was deleted or evicted since: then a missing row says nothing, and the service is listed again,
-- as after forget-ledger.lua. Rows of relations leave the ledger only one at a time, by hand.
local function readWarmUp(ledger, warmUp)
  local state, listed, cursor = unpack(redis.call('HMGET', warmUp, 'state', 'relations', 'cursor'))
  if state == 'done' and redis.call('HLEN', ledger) * 2 < (tonumber(listed) or 0) then
    redis.call('DEL', warmUp)
    redis.call('HSET', warmUp, 'forgotten', now, 'lost', now)
    return
  end
  return state, listed, cursor
end
