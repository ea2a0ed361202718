-- head: stores the head of a group's chat, unless the stored one is newer.
--
-- KEYS[1] head  string  version and JSON
-- ARGV[1] the key's TTL in milliseconds
-- ARGV[2] version and JSON
--
-- Returns 1 if it was written.
local stored = redis.call('GET', KEYS[1])
if stored and tonumber(string.match(stored, '^%d+')) > tonumber(string.match(ARGV[2], '^%d+')) then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1])
return 1
