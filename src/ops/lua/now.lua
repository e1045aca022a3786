-- Include: `now` is the clock that all processes share, ms (src/state/redis-clock.ts). The caller
-- passes it as the last argument, which is removed here. It passes '' when it does not know the
-- time: then `now` is Redis' own clock without its steps. The first key must begin with the
-- tenant's hash tag.
local now = tonumber(table.remove(ARGV))
if not now then
  local clock = redis.call('TIME')
  local steps = redis.call('HGET', (string.match(KEYS[1], '^{.-}') or '') .. ':clock', 'offset')
  now = clock[1] * 1000 + math.floor(clock[2] / 1000) + (tonumber(steps) or 0)
end
