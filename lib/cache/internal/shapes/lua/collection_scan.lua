-- scan: some members of a hash or set, in no order.
--
-- KEYS[1] collection  hash or set, with marks: see collection.lua
-- ARGV[1] type
-- ARGV[2] era         of the servers, 8 bytes
-- ARGV[3] cursor      that the call before returned, or 0
-- ARGV[4] count       about how many
--
-- Returns what HSCAN or SSCAN does, the mark included, or nil when the collection
-- is not loaded.
if not collection(KEYS[1], ARGV[1]).has('V' .. ARGV[2]) then return false end
return redis.call(ARGV[1] == 'hash' and 'HSCAN' or 'SSCAN', KEYS[1], ARGV[3], 'COUNT', ARGV[4])
