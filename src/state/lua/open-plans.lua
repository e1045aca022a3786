-- Finds the comparisons whose plan was not begun. Of each kind of export the newest counts, and of
-- what came before a list of a whole CRM only what another CRM has listed.
--
-- KEYS  1 reconciliation:comparisons
-- ARGV  1 prefix of the keys of plans
-- Returns them as they were noted, newest first.
local open, seen, whole = {}, {}, {}
for _, text in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
  local one = cjson.decode(text)
  local kind = one.kind or one.crm or ''
  -- A file does not tell of which CRM it is.
  local isCovered = one.crm and whole[one.crm] or not one.crm and next(whole)
  if not one.stop and not seen[kind] and not isCovered then
    seen[kind] = true
    if one.plan and redis.call('EXISTS', ARGV[1] .. one.plan.id) == 0 then
      open[#open + 1] = text
    end
    if one.crm and not one.object then whole[one.crm] = true end
  end
end
return open
