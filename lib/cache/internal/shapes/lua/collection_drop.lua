-- drop: remove a collection; fences stay.
--
-- KEYS[1] collection  hash, set or zset, with marks: see collection.lua
-- ARGV[1] type
--
-- Returns 1, or 0 when changes are under way: nobody can read what is there, and
-- they must not bring it back.
local c = collection(KEYS[1], ARGV[1])
if c.has('F1') then
  c.mark('S')
  return 0
end
redis.call('UNLINK', KEYS[1])
return 1
