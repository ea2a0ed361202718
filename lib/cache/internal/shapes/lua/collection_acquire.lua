-- acquire: acquire the lease to load a collection, unless it is loaded, leased or fenced.
--
-- KEYS[1] collection  hash, set or zset, with marks: see collection.lua
-- ARGV[1] type
-- ARGV[2] token       of the lease, 8 bytes, never used before
-- ARGV[3] era         of the servers, 8 bytes
-- ARGV[4] life        ms: when the lease expires, and with it all content
-- ARGV[5] replace     '1' to load a loaded collection again, else ''
--
-- Returns 0 or more if the caller got the lease: the ms that the present content, kept until it is replaced, would have
-- lived. Otherwise returns -1 if the collection is loaded, -2 if it is being changed, -3 if another process has the
-- lease.
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
