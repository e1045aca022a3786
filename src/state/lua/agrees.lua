-- Include: whether the service has what is wanted, by the fingerprints of both (fingerprint.ts).
-- Behind the hash are letters of fields that have a value: each that is wanted must be there.
local function agrees(wanted, known)
  if wanted == '' or not known then return false end
  local hash, letters = string.match(wanted, '^([^.]*)%.?(.*)$')
  local knownHash, filled = string.match(known, '^([^.]*)%.?(.*)$')
  if hash ~= knownHash then return false end
  for letter in string.gmatch(letters, '.') do
    if not string.find(filled, letter, 1, true) then return false end
  end
  return true
end
