-- erase: replaces a user by a stand-in in a set and keeps its TTL. A set with one member is never empty, so that it is
-- not created again without a TTL.
--
-- KEYS[1] set of users
-- ARGV[1] user
-- ARGV[2] stand-in
--
-- Returns 1 if the user was in the set, else 0.
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('SADD', KEYS[1], ARGV[2])
redis.call('SREM', KEYS[1], ARGV[1])
return 1
