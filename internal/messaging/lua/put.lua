-- put: chats of a user as they are, each unless what is there is newer.
--
-- KEYS[1] recent   zset  chat → place in the list
-- KEYS[2] unread   hash  chat → unread messages, until when it is muted
-- KEYS[3] chats    hash  chat → version place changed unread muted state; '' → all chats are here
-- KEYS[4] changes  zset  chat → Unix ms of its last change
-- ARGV[1] the keys' life in milliseconds
-- ARGV[2] '1' if with these all chats of the user are here
-- then for each chat its name and what KEYS[3] has of it
--
-- Returns how many were written.
local whole, written = ARGV[2] == '1', 0
for i = 3, #ARGV, 2 do
  local name, state = ARGV[i], ARGV[i + 1]
  local held = redis.call('HGET', KEYS[3], name)
  local newer = not held or tonumber(string.match(held, '^%d+')) < tonumber(string.match(state, '^%d+'))
  if newer then
    redis.call('HSET', KEYS[3], name, state)
    written = written + 1
  else
    state = held
  end
  if newer or whole then
    local place, changed, unread, muted = string.match(state, '^%d+ (%d+) (%d+) (%d+) (%d+) ')
    redis.call('ZADD', KEYS[1], place, name)
    redis.call('HSET', KEYS[2], name, unread .. ' ' .. muted)
    redis.call('ZADD', KEYS[4], changed, name)
  end
end
if whole then redis.call('HSET', KEYS[3], '', '1') end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end
return written
