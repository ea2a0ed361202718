-- release: end the lease, if the caller holds it.
--
-- KEYS[1] lease   string  "token nonce owner" of the holder
-- ARGV[1] holder  "token nonce owner" of the caller
--
-- Returns 1, or 0 if the lease is free or has another holder.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
