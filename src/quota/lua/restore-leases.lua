-- Writes leases that Redis has forgotten, because it went back to an older state.
--
-- KEYS  Bottleneck's: 1 settings  2 job_weights  3 job_expirations  4 job_clients
--       5 client_running
-- ARGV  1 client; then of each lease: its name, its slots, when it ends by itself from now on, ms
-- Returns how many were forgotten.
--- @include "../../ops/lua/now.lua"
local client, restored = ARGV[1], 0
for i = 2, #ARGV, 3 do
  local lease, slots = ARGV[i], ARGV[i + 1]
  if redis.call('HSETNX', KEYS[2], lease, slots) == 1 then
    redis.call('HINCRBY', KEYS[1], 'running', slots)
    redis.call('ZADD', KEYS[3], now + ARGV[i + 2], lease)
    redis.call('HSET', KEYS[4], lease, client)
    redis.call('ZINCRBY', KEYS[5], slots, client)
    restored = restored + 1
  end
end
return restored
