-- Include: takes a dead letter that was deleted or replaced out of the numbers by reason, the hash
-- <dead-letters>:reasons, and out of the ages (expire-dead-letters.lua). Call it after the write: a
-- full Redis lets a script go on then.
local function countOut(letters, letter)
  if not letter then return end
  local details = cjson.decode(cjson.decode(letter).details)
  redis.call('HINCRBY', letters .. ':reasons', details.reason, -1)
  redis.call('ZREM', letters .. ':ages', details.id)
end
