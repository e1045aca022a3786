-- Include: takes a dead letter that was deleted or replaced out of the numbers by reason, which are
-- the hash <dead-letters>:reasons. Call it after the write: a full Redis lets a script go on then.
local function countOut(letters, letter)
  if not letter then return end
  local reason = cjson.decode(cjson.decode(letter).details).reason
  redis.call('HINCRBY', letters .. ':reasons', reason, -1)
end
