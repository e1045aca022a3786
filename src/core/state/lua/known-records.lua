-- Reads everything that is kept of some records, as of one moment.
--
-- KEYS  1 ledger  2 dead-letters:marks  3 lost  4 warm-up
-- ARGV  1 prefix of the staged keys, then of each record its crmCode, and the key of its history ("": none is kept)
-- Returns the ledger's epoch; the rows, marks, and times since which they are lost; then of each record its state, and
-- the newest event among its last two steps.
local codes, letters = {}, {}
for n = 2, #ARGV, 2 do
  codes[#codes + 1] = ARGV[n]
  letters[#letters + 1] = 'c:' .. ARGV[n]
end
local found = {
  redis.call('HGET', KEYS[4], 'epoch'),
  redis.call('HMGET', KEYS[1], unpack(codes)),
  redis.call('HMGET', KEYS[2], unpack(letters)),
  redis.call('HMGET', KEYS[3], unpack(codes)),
}
for n = 2, #ARGV, 2 do
  local step = false
  if ARGV[n + 1] ~= '' then
    for _, text in ipairs(redis.call('LRANGE', ARGV[n + 1], 0, 1)) do
      if not step and string.sub(text, 1, 15) == '{"kind":"event"' then step = text end
    end
  end
  found[#found + 1] = redis.call('HGET', ARGV[1] .. ARGV[n], 'state')
  found[#found + 1] = step
end
return found
