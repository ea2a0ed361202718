-- open: note a connection of a user.
--
-- KEYS[1] connections  string  entries with spaces between them, the oldest first
-- ARGV[1] the entry
-- ARGV[2] the key's life in milliseconds
--
-- Returns the value as it was before; empty: the user had none.
local before = redis.call('GET', KEYS[1]) or ''
local after = ''
for entry in string.gmatch(before, '%S+') do
  if entry ~= ARGV[1] then after = after .. entry .. ' ' end
end
redis.call('SET', KEYS[1], after .. ARGV[1], 'PX', ARGV[2])
return before
