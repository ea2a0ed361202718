-- wish: store a user's wish, unless Redis has a newer one. If the wish changes and the user has connections, it sets
-- the next version.
--
-- KEYS[1] status       string  wish:version
-- KEYS[2] connections  string  entries with spaces between them
-- KEYS[3] version      string  of the user's status, see change.lua
-- ARGV[1] the wish
-- ARGV[2] its version
-- ARGV[3] the TTL of the keys in milliseconds
-- ARGV[4] Unix milliseconds
--
-- Returns the connections, and the version of the status.
local wish, after = redis.call('GET', KEYS[1]) or '', ARGV[1] .. ':' .. ARGV[2]
local connections, version = redis.call('GET', KEYS[2]) or '', redis.call('GET', KEYS[3]) or '0'
if tonumber(string.match(wish, ':(%d+)$') or 0) > tonumber(ARGV[2]) then return {connections, version} end
if wish ~= after and connections ~= '' then
  version = string.format('%.0f', math.max(tonumber(version) + 1, tonumber(ARGV[4])))
  redis.call('SET', KEYS[3], version, 'PX', ARGV[3])
end
redis.call('SET', KEYS[1], after, 'PX', ARGV[3])
return {connections, version}
