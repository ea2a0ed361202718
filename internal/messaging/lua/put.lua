-- put: stores chats of a user, each unless the stored one is newer.
--
-- KEYS[1] recent   zset  chat → place in the list
-- KEYS[2] unread   hash  chat → unread messages, end of the mute
-- KEYS[3] chats    hash  chat → version place changed unread muted state; '' → all chats are stored: length of KEYS[5]
-- KEYS[4] changes  zset  chat → Unix ms of its last change
-- KEYS[5] groups   hash  chat of a group → version and the user's own part
-- ARGV[1] the keys' TTL in milliseconds
-- ARGV[2] the number of all chats with their last part; '+' with an earlier part; '' with single chats
-- then for each chat its name and its value in KEYS[3]
--
-- Returns the number of written chats.
local count = redis.call('HGET', KEYS[3], '')
local complete = count == tostring(redis.call('HLEN', KEYS[5])) -- true before this call, and so after it
local rewrite = ARGV[2] ~= '' -- also write the smaller parts of chats that are not newer: one may be lost
local written = 0
for i = 3, #ARGV, 2 do
  local name, state = ARGV[i], ARGV[i + 1]
  local grouped = string.sub(name, 1, 2) == 'g:'
  local key = grouped and KEYS[5] or KEYS[3]
  local stored = redis.call('HGET', key, name)
  local newer = not stored or tonumber(string.match(stored, '^%d+')) < tonumber(string.match(state, '^%d+'))
  if newer then
    redis.call('HSET', key, name, state)
    written = written + 1
  else
    state = stored
  end
  if not grouped and (newer or rewrite) then
    local place, changed, unread, muted = string.match(state, '^%d+ (%d+) (%d+) (%d+) (%d+) ')
    redis.call('ZADD', KEYS[1], place, name)
    redis.call('HSET', KEYS[2], name, unread .. ' ' .. muted)
    redis.call('ZADD', KEYS[4], changed, name)
  end
end
local all = tonumber(ARGV[2])
if all then -- an earlier part may have been refused or evicted
  complete = redis.call('HLEN', KEYS[3]) - (count and 1 or 0) + redis.call('HLEN', KEYS[5]) >= all
end
if complete then
  redis.call('HSET', KEYS[3], '', redis.call('HLEN', KEYS[5]))
elseif count then
  redis.call('HDEL', KEYS[3], '') -- a part was lost
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end
return written
