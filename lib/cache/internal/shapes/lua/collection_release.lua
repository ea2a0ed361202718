-- release: give a lease up without having loaded anything.
--
-- KEYS[1] collection  hash, set or zset, with marks: see collection.lua
-- ARGV[1] type
-- ARGV[2] token       of the lease
-- ARGV[3] era         of the servers, 8 bytes
-- ARGV[4] life        ms that what was to be replaced has left, or 0
--
-- Returns 1, or 0 when the lease is gone. What was to be replaced stays, if it is
-- still whole.
local c = collection(KEYS[1], ARGV[1])
if not c.has('L') or not c.has('T' .. ARGV[2]) then return 0 end
if c.has('V' .. ARGV[3]) and tonumber(ARGV[4]) > 0 then
  c.unmark('L')
  c.unmark('T' .. ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
else
  redis.call('UNLINK', KEYS[1])
end
return 1
