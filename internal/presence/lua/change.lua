-- change: draw a version of a user's status: higher than the last one, and at least the time.
--
-- KEYS[1] version  string  a number
-- ARGV[1] the key's life in milliseconds
-- ARGV[2] Unix milliseconds
--
-- Returns the version.
local version = math.max(tonumber(redis.call('GET', KEYS[1]) or 0) + 1, tonumber(ARGV[2]))
redis.call('SET', KEYS[1], string.format('%.0f', version), 'PX', ARGV[1])
return version
