-- untry: gives back one try that try.lua has counted.
--
-- KEYS[1] counter  string  tries
--
-- Returns the remaining count. The TTL does not change.
local n = tonumber(redis.call('GET', KEYS[1]) or 0)
if n == 0 then return 0 end
if n == 1 then redis.call('UNLINK', KEYS[1]) return 0 end
return redis.call('DECR', KEYS[1])
