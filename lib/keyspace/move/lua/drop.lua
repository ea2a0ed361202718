-- Removes an old key whose value is in the new one.
-- KEYS[1] the old key
-- KEYS[2] the new key
-- Returns 1; 0 when there is no new key, and nothing was done.
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('EXISTS', KEYS[2]) == 0 then
  return 0
end
redis.call('UNLINK', KEYS[1])
return 1
