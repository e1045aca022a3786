-- Include: where an event is remembered: bucket of a week (src/state/seen-keys.ts), and member of
-- that set. Together they are 58 bits of a hash of the event key. Redis keeps a set of integers in
-- 8 bytes each while it has at most 512. The name of a bucket begins with that of its week, so both
-- have the same hash tag.
local function seenPlace(eventKey)
  local digest = redis.sha1hex(eventKey)
  local bucket = tonumber(string.sub(digest, 1, 8), 16) % 1024
  return ':' .. bucket, string.format('%d', tonumber(string.sub(digest, 9, 20), 16))
end
