-- estimate: add users to a HyperLogLog and set its TTL in one step. If a process died between two steps, the key would
-- never expire.
--
-- KEYS[1] HyperLogLog
-- ARGV[1] TTL in milliseconds
-- ARGV[2] …  users
--
-- Returns 1 if the estimate may have changed, else 0.
local changed = redis.call('PFADD', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return changed
