-- size: count the members of a collection.
--
-- KEYS[1] collection  hash, set or zset, with marks: see collection.lua
-- ARGV[1] type
-- ARGV[2] era         of the servers, 8 bytes
-- ARGV[3] above       of a zset: count only scores above this; '' counts all
--
-- Returns the number, or nil if the collection is not loaded.
local c = collection(KEYS[1], ARGV[1])
if not c.has('V' .. ARGV[2]) then return false end
if ARGV[3] ~= '' then return redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[3], '+inf') end
return c.members()
