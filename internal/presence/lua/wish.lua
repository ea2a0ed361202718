-- wish: note what a user wishes to be, unless a newer wish is there.
--
-- KEYS[1] status  string  wish:version
-- ARGV[1] the wish
-- ARGV[2] its version
-- ARGV[3] the key's life in milliseconds
--
-- Returns 1 where it was noted.
local version = string.match(redis.call('GET', KEYS[1]) or '', ':(%d+)$')
if version and tonumber(version) > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2], 'PX', ARGV[3])
return 1
