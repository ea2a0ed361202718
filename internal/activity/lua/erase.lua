-- erase: have a stand-in take the place of a user in a set, whose life stays what it is: a
-- set of one is never empty, and so never made anew without a life.
--
-- KEYS[1] set of users
-- ARGV[1] user
-- ARGV[2] stand-in
--
-- Returns 1 if the user was there, else 0.
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('SADD', KEYS[1], ARGV[2])
redis.call('SREM', KEYS[1], ARGV[1])
return 1
