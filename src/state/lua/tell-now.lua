-- Tells the shared time.
--
-- KEYS  1 clock
-- Returns it as text, ms.
--- @include "../../ops/lua/now.lua"
return string.format('%d', now)
