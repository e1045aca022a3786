-- Ends a denial, and remembers for a while how many probes it took.
--
-- KEYS  1 denial  2 denial:ended
-- ARGV  1 for how long that is remembered, ms
-- Returns 1 when there was a denial, else 0.
local flat = redis.call('HGETALL', KEYS[1])
if not flat[1] then return 0 end
redis.call('SET', KEYS[2], cjson.decode(flat[2]).probes, 'PX', ARGV[1])
return redis.call('DEL', KEYS[1])
