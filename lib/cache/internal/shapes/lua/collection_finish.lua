-- finish: end a change. If it was the only one, apply it to the cached collection.
--
-- KEYS[1] collection  hash, set or zset, with marks: see collection.lua
-- ARGV[1] type
-- ARGV[2] token       of the change
-- ARGV[3] era         of the servers when the change began, 8 bytes
-- ARGV[4] life        remaining ms of the collection, from the result of fence, or 0
--                     to drop it
-- ARGV[5] puts        number of the following strings that put members, as the type's
--                     command expects them; the rest are members to remove
-- ARGV[6] …
--
-- Returns 2 if the change was applied. Returns 1 if the content is dropped now, or will be by another change under way.
-- Returns 0 if the fence was lost, so that old members may have been loaded meanwhile: they are removed.
local c = collection(KEYS[1], ARGV[1])
local n = c.changes()
if not c.has('T' .. ARGV[2]) then
  if n > 0 then c.mark('S') else redis.call('UNLINK', KEYS[1]) end
  return 0
end
if n > 1 then
  c.unmark('F' .. n)
  c.unmark('T' .. ARGV[2])
  return 1
end
if ARGV[4] == '0' or c.has('S') then
  redis.call('UNLINK', KEYS[1])
  return 1
end
local removes = 6 + tonumber(ARGV[5])
if removes > 6 then redis.call(c.add, KEYS[1], unpack(ARGV, 6, removes - 1)) end
if removes <= #ARGV then redis.call(c.rem, KEYS[1], unpack(ARGV, removes)) end
c.mark('V' .. ARGV[3])
c.unmark('F1')
c.unmark('T' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 2
