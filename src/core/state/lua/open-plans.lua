-- Finds the comparisons whose plan was not begun, or has ended: it may have left differences. Of
-- each kind of export the newest counts, and of what came before a list of a whole CRM only what
-- another CRM has listed.
--
-- KEYS  1 reconciliation:comparisons
-- ARGV  1 prefix of the keys of plans
-- Returns, newest first, for each { as it was noted, fields of its plan }.
local open, seen, whole = {}, {}, {}
for _, text in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
  local one = cjson.decode(text)
  local kind = one.kind or one.crm or ''
  -- A file does not tell of which CRM it is.
  local isCovered = one.crm and whole[one.crm] or not one.crm and next(whole)
  if not one.stop and not one.dismissed and not seen[kind] and not isCovered then
    seen[kind] = true
    local key = one.plan and ARGV[1] .. one.plan.id
    if key and redis.call('HGET', key, 'state') ~= 'running' then
      open[#open + 1] = { text, redis.call('HGETALL', key) }
    end
    if one.crm and not one.object then whole[one.crm] = true end
  end
end
return open
