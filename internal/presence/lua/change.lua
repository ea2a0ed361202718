-- change: set the next version of a user's status. It is higher than the last one, and at least the given time.
--
-- KEYS[1] version  string  a number
-- ARGV[1] the TTL of the key in milliseconds
-- ARGV[2] Unix milliseconds
--
-- Returns the version.
local version = math.max(tonumber(redis.call('GET', KEYS[1]) or 0) + 1, tonumber(ARGV[2]))
redis.call('SET', KEYS[1], string.format('%.0f', version), 'PX', ARGV[1])
return version
