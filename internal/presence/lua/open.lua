-- open: store a connection of a user. The first one sets the next version.
--
-- KEYS[1] connections  string  entries with spaces between them, the oldest first
-- KEYS[2] version      string  of the user's status, see change.lua
-- ARGV[1] the entry
-- ARGV[2] the TTL of the keys in milliseconds
-- ARGV[3] Unix milliseconds
--
-- Returns the connections before this one was stored (empty: the user had none), and the version.
local before, version = redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2])
local after = ''
for entry in string.gmatch(before, '%S+') do
  if entry ~= ARGV[1] then after = after .. entry .. ' ' end
end
if before == '' or not version then
  version = string.format('%.0f', math.max(tonumber(version or 0) + 1, tonumber(ARGV[3])))
end
redis.call('SET', KEYS[1], after .. ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], version, 'PX', ARGV[2])
return {before, version}
