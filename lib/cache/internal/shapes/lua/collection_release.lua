-- release: release a lease without a loaded collection.
--
-- KEYS[1] collection  hash, set or zset, with marks: see collection.lua
-- ARGV[1] type
-- ARGV[2] token       of the lease
-- ARGV[3] era         of the servers, 8 bytes
-- ARGV[4] life        remaining ms of the content to be replaced, or 0
--
-- Returns 1, or 0 if the lease is gone. The content to be replaced stays if it is still complete.
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
