-- renew: extend the lease to its whole life, if the caller holds it.
--
-- KEYS[1] lease   string  "token nonce owner" of the holder
-- ARGV[1] holder  "token nonce owner" of the caller
-- ARGV[2] life    milliseconds
--
-- Returns 1, or 0 if the lease is free or has another holder.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
