-- Whether a record without a row is absent from the service: what listed the service has listed all
-- of it. An empty list proves nothing: a service that rebuilds its index answers so too.
local function provesAbsence(warmUp)
  local state, relations, cursor =
    unpack(redis.call('HMGET', warmUp, 'state', 'relations', 'cursor'))
  return state == 'done' and relations ~= '0' and not cursor
end
