-- scan: some members of a hash or set, in any order.
--
-- KEYS[1] collection  hash or set, with marks: see collection.lua
-- ARGV[1] type
-- ARGV[2] era         of the servers, 8 bytes
-- ARGV[3] cursor      from the previous call, or 0
-- ARGV[4] count       approximate number of members
--
-- Returns the reply of HSCAN or SSCAN, the mark included, or nil if the collection is not loaded.
if not collection(KEYS[1], ARGV[1]).has('V' .. ARGV[2]) then return false end
return redis.call(ARGV[1] == 'hash' and 'HSCAN' or 'SSCAN', KEYS[1], ARGV[3], 'COUNT', ARGV[4])
