-- fill: add members of a collection that is being loaded. They are sent in several parts; readers see them only after
-- the last.
--
-- KEYS[1] collection  hash, set or zset, with marks: see collection.lua
-- ARGV[1] type
-- ARGV[2] token       of the lease
-- ARGV[3] era         of the servers, 8 bytes
-- ARGV[4] life        ms: in the last part of the collection, before that of the lease
-- ARGV[5] first       '1' in the first part, which removes the earlier content, else ''
-- ARGV[6] total       in the last part the number of all members, else ''
-- ARGV[7] …           members, as the type's command expects them
--
-- Returns 1. Returns 0 if the lease is gone, because a change happened in between, or if parts are missing at the end:
-- then the collection is removed.
local c = collection(KEYS[1], ARGV[1])
if not c.has('L') or not c.has('T' .. ARGV[2]) then return 0 end
local marks = 2
if ARGV[5] == '1' then
  redis.call('UNLINK', KEYS[1])
  if ARGV[6] ~= '' then -- a small hash is read from its beginning, so the mark goes there
    c.mark('V' .. ARGV[3])
    marks = 1
  else
    c.mark('L')
    c.mark('T' .. ARGV[2])
  end
end
if #ARGV > 6 then redis.call(c.add, KEYS[1], unpack(ARGV, 7)) end
if ARGV[6] ~= '' then
  if c.size() ~= ARGV[6] + marks then
    redis.call('UNLINK', KEYS[1])
    return 0
  end
  c.mark('V' .. ARGV[3])
  c.unmark('L')
  c.unmark('T' .. ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
