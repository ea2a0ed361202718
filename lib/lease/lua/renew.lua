-- renew: give the lease its whole life again, if it is still the caller's.
--
-- KEYS[1] lease   string  "token nonce owner" of the holder
-- ARGV[1] holder  "token nonce owner" of the caller
-- ARGV[2] life    milliseconds
--
-- Returns 1, or 0 when it is somebody else's or nobody's.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
