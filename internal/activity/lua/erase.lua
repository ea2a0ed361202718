-- erase: replace a user by a random id in a set. The id is added before the user is removed, so that the set is never
-- empty and keeps its TTL.
--
-- KEYS[1] set of users
-- ARGV[1] user
-- ARGV[2] random id
--
-- Returns 1 if the user was in the set, else 0.
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('SADD', KEYS[1], ARGV[2])
redis.call('SREM', KEYS[1], ARGV[1])
return 1
