-- Keeps an act for the audit trail until a process has written its line.
--
-- KEYS  1 audit:acts  2 audit:heads
-- ARGV  1 the act, as JSON  2 '1' when this process knows that there is an audit trail
-- Returns 1, or 0 when no process has ever written an audit trail.
--- @include "../../ops/lua/now.lua"
--- @include "keep-act.lua"
return keepAct(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
