/** Pieces that more than one script needs. */

/**
 * Whether order `a` is older than `b`, byte by byte. Lua's own `<` compares by the locale that
 * the server happened to start with.
 */
export const OLDER = `
local function older(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
`;

/** The server's clock in ms: the one clock that all processes share. */
export const NOW = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
`;

/** The staged hash at KEYS[1] as table `s`; `flat` is the same as a list. */
export const FIELDS = `
local s = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do s[flat[i]] = flat[i + 1] end
`;
