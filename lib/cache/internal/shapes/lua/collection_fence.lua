-- fence: forbid reading and loading a collection until the change is finished.
--
-- KEYS[1] collection  hash, set or zset, with marks: see collection.lua
-- ARGV[1] type
-- ARGV[2] token       of the change, 8 bytes, never used before
-- ARGV[3] era         of the servers, 8 bytes
-- ARGV[4] life        ms: the longest that the change may take
--
-- Returns the ms that the content would have lived, if it is kept so that the change can be applied to it. Otherwise
-- returns 0: another change or load is under way, or the collection is empty. A change that is never finished stays
-- among the marks until no other change has begun for as long as one may take.
local c = collection(KEYS[1], ARGV[1])
local n, left = c.changes(), 0
local life = tonumber(ARGV[4])
if n > 0 then
  c.mark('S')
  life = math.max(life, redis.call('PTTL', KEYS[1]))
elseif c.has('V' .. ARGV[3]) and not c.has('L') then
  left = redis.call('PTTL', KEYS[1])
  c.unmark('V' .. ARGV[3])
else
  redis.call('UNLINK', KEYS[1])
end
c.mark('F' .. n + 1)
c.mark('T' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], life)
return left
