-- renew: record a heartbeat of a running load.
--
-- KEYS[1] state  hash  the board
-- ARGV[1] token  of the load
-- ARGV[2] now    Unix ms
--
-- Returns 1, or 0 if the token no longer exists.
if redis.call('HGET', KEYS[1], 'load') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'beat', ARGV[2])
return 1
