-- Removes an old key whose value is in the new one.
-- KEYS[1] the old key
-- KEYS[2] the new key
-- ARGV[1] what stamp.lua said of the old key when the new one was filled from it; '' when it was not
-- Returns 1; 0 when there is no new key, and nothing was done. A value that was filled may leave none.
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('EXISTS', KEYS[2]) == 0
  and redis.sha1hex(redis.call('DUMP', KEYS[1])) ~= ARGV[1] then
  return 0
end
redis.call('UNLINK', KEYS[1])
return 1
