-- finish: replace a board with the loaded one.
--
-- KEYS[1] state  hash  the board; field 'by' is the load that made it
-- KEYS[2] log    list  changes
-- KEYS[3] held   list  changes that the load has applied
-- ARGV[1] token  of the load
-- ARGV[2] seen   the version that was read, '' for none
-- ARGV[3] new    the new version
-- ARGV[4] n      number of elements of the log that the load has applied
-- ARGV[5] …      field and value, for each field of the board
--
-- Returns 1. Returns 0 if a fold has happened since, or -1 if the token no longer exists; nothing is changed then.
if redis.call('HGET', KEYS[1], 'load') ~= ARGV[1] then return -1 end
if (redis.call('HGET', KEYS[1], 'v') or '') ~= ARGV[2] then return 0 end

redis.call('LTRIM', KEYS[2], ARGV[4], -1)
redis.call('UNLINK', KEYS[1], KEYS[3])
redis.call('HSET', KEYS[1], 'v', ARGV[3], 'by', ARGV[1], unpack(ARGV, 5))
return 1
