-- Finds the comparisons whose plan was not begun. Of each kind of export the newest counts, and of
-- those before a list of the whole CRM none.
--
-- KEYS  1 reconciliation:comparisons
-- ARGV  1 prefix of the keys of plans
-- Returns them as they were noted, newest first.
local open, seen = {}, {}
for _, text in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
  local one = cjson.decode(text)
  local kind = one.crm or one.kind or ''
  if not one.stop and not seen[kind] then
    seen[kind] = true
    if one.plan and redis.call('EXISTS', ARGV[1] .. one.plan.id) == 0 then
      open[#open + 1] = text
    end
    if one.crm then break end
  end
end
return open
