-- Include, after older.lua: which events that are known of a record are the newest; '': none is.
--   newest        order of the newest event that waits or was settled
--   newestFields  order of the newest one of these that brought fields
-- Uses `row`, the ledger's (or nil), and `s`, the staged hash or its fields v, o and of.
local newest, newestFields = row and row.w or '', row and (row.wf or row.w) or ''
if s.v and older(newest, s.o) then newest = s.o end
if s.v and older(newestFields, s.of or s.o) then newestFields = s.of or s.o end
