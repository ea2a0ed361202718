-- Stores a value in the new key, unless the old key has changed.
-- KEYS[1]   the old key
-- KEYS[2]   the new key
-- ARGV[1]   the stamp of the old key, from stamp.lua, before it was read
-- ARGV[2] … commands: 2 for the key, number of arguments, name, arguments
-- Returns 1; 0 if the old key has changed, and nothing was done. If the old key does
-- not exist, nothing is done either: the deletion has already updated the new key.
local dump = redis.call('DUMP', KEYS[1])
if (dump and redis.sha1hex(dump) or '') ~= ARGV[1] then
  return 0
end
if not dump then
  return 1
end
redis.call('UNLINK', KEYS[2])
local i = 2
while i <= #ARGV do
  local n = tonumber(ARGV[i + 1])
  local cmd = {ARGV[i + 2], KEYS[2]}
  for j = 1, n do
    cmd[j + 2] = ARGV[i + 2 + j]
  end
  redis.call(unpack(cmd))
  i = i + 3 + n
end
return 1
