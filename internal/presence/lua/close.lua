-- close: remove one connection of a user, or all of them to one node. The removal of the last one
-- sets the next version.
--
-- KEYS[1] connections  string  entries with spaces between them
-- KEYS[2] version      string  of the user's status, see change.lua
-- ARGV[1] the prefix of the entries
-- ARGV[2] the TTL of the version in milliseconds
-- ARGV[3] Unix milliseconds
--
-- Returns the number of removed entries, the remaining connections (empty: none), and the version.
local before, version = redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2]) or '0'
local after, found = '', 0
for entry in string.gmatch(before, '%S+') do
  if string.sub(entry, 1, #ARGV[1]) == ARGV[1] then
    found = found + 1
  else
    after = after == '' and entry or after .. ' ' .. entry
  end
end
if found > 0 and after ~= '' then
  redis.call('SET', KEYS[1], after, 'KEEPTTL')
elseif found > 0 then
  version = string.format('%.0f', math.max(tonumber(version) + 1, tonumber(ARGV[3])))
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[2], version, 'PX', ARGV[2])
end
return {found, after, version}
