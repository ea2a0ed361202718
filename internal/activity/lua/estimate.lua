-- estimate: adds users to a HyperLogLog and sets its TTL in one step, because a process that dies between the two would
-- leave a key forever.
--
-- KEYS[1] HyperLogLog
-- ARGV[1] life         ms
-- ARGV[2] …            users
--
-- Returns 1 if the estimate may have changed, else 0.
local changed = redis.call('PFADD', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return changed
