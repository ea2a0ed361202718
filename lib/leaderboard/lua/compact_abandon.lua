-- abandon: end a load without a result.
--
-- KEYS[1] state  hash  the board
-- KEYS[2] held   list  changes since the load began
-- ARGV[1] token  of the load
--
-- Returns 1, or 0 if the token no longer exists.
if redis.call('HGET', KEYS[1], 'load') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'load', 'beat')
redis.call('UNLINK', KEYS[2])
return 1
