-- Removes an old key whose value is in the new one.
-- KEYS[1] the old key
-- KEYS[2] the new key
-- ARGV[1] the stamp of the old key, from stamp.lua, when the new key was filled; '' if it was not
-- Returns 1; 0 if the new key does not exist, and nothing was changed. A filled value may need no new key.
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('EXISTS', KEYS[2]) == 0
  and redis.sha1hex(redis.call('DUMP', KEYS[1])) ~= ARGV[1] then
  return 0
end
redis.call('UNLINK', KEYS[1])
return 1
