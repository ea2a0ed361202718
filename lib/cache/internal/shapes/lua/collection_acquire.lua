-- acquire: become the one who loads a collection, unless it is there, somebody is
-- at it already, or it is being changed.
--
-- KEYS[1] collection  hash, set or zset, with marks: see collection.lua
-- ARGV[1] type
-- ARGV[2] token       of the lease, 8 bytes, never used before
-- ARGV[3] era         of the servers, 8 bytes
-- ARGV[4] life        ms: when the lease lapses, and with it whatever is there
-- ARGV[5] replace     '1' to load again what is loaded, else ''
--
-- Returns 0 or more when the lease is the caller's: how many ms what is there
-- would have lived, until it is replaced. Else -1 when the collection is there,
-- -2 when it is being changed, -3 when somebody has the lease.
local c = collection(KEYS[1], ARGV[1])
local left = 0
if c.has('F1') then return -2 end
if c.has('L') then return -3 end
if c.has('V' .. ARGV[3]) then
  if ARGV[5] == '' then return -1 end
  left = redis.call('PTTL', KEYS[1])
else
  redis.call('UNLINK', KEYS[1])
end
c.mark('L')
c.mark('T' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return left
