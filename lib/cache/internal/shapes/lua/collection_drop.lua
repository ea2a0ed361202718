-- drop: remove a collection; fences stay.
--
-- KEYS[1] collection  hash, set or zset, with marks: see collection.lua
-- ARGV[1] type
--
-- Returns 1, or 0 if changes are under way: the content cannot be read, and those changes must not restore it.
local c = collection(KEYS[1], ARGV[1])
if c.has('F1') then
  c.mark('S')
  return 0
end
redis.call('UNLINK', KEYS[1])
return 1
