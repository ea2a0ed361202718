-- Runs the commands of one phase on the two keys of an entity.
-- KEYS[1]   the old key
-- KEYS[2]   the new key
-- ARGV[1]   the phase in the view of the writer
-- ARGV[2]   "yes" if the state of the keys was already checked, see below
-- ARGV[3]   the type of the old key
-- ARGV[4]   the type of the new key
-- ARGV[5] … commands: 1 or 2 for the key, number of arguments, name, arguments
-- Returns 0 and the reply of each command; 1 if the new key must be filled first;
-- 2 if the phase must be read again. With 1 and 2, nothing was changed.
local old, new = redis.call('TYPE', KEYS[1]).ok, redis.call('TYPE', KEYS[2]).ok
if old ~= 'none' and old ~= ARGV[3] or new ~= 'none' and new ~= ARGV[4] then
  return redis.error_reply('WRONGTYPE of a key that moves')
end
local phase = ARGV[1]
if ARGV[2] ~= 'yes' then
  if phase ~= 'old' and old ~= 'none' and new == 'none' then
    return {1}
  end
  if phase == 'old' and new ~= 'none' then
    return {2}
  end
end
local out, i = {0}, 5
while i <= #ARGV do
  local n = tonumber(ARGV[i + 1])
  local cmd = {ARGV[i + 2], KEYS[tonumber(ARGV[i])]}
  for j = 1, n do
    cmd[j + 2] = ARGV[i + 2 + j]
  end
  out[#out + 1] = redis.call(unpack(cmd))
  i = i + 3 + n
end
if phase == 'new' then
  redis.call('UNLINK', KEYS[1]) -- outdated in this phase
end
return out
