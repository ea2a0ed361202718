-- list: returns a part of a user's chats, and the unread messages in all of them.
--
-- KEYS[1] recent   zset  chat → place in the list; 0: not shown
-- KEYS[2] unread   hash  chat → unread messages, end of the mute
-- KEYS[3] chats    hash  chat → state; '' → all chats are stored: length of KEYS[5]
-- KEYS[4] changes  zset  chat → Unix ms of its last change
-- KEYS[5] groups   hash  chat of a group → version and the user's own part
-- ARGV[1] Unix ms: only chats that have changed since, newest change first; '' for the list
-- ARGV[2] number to return
-- ARGV[3] Unix ms, now
--
-- Returns the number of unread messages in chats of two users that are not muted, the number of
-- states, the states, and then the user's own parts of all groups' chats. Returns nothing if a
-- part is missing.
local n = redis.call('ZCARD', KEYS[1])
if redis.call('HLEN', KEYS[3]) ~= n + 1 or redis.call('HLEN', KEYS[2]) ~= n
  or redis.call('ZCARD', KEYS[4]) ~= n
  or redis.call('HGET', KEYS[3], '') ~= tostring(redis.call('HLEN', KEYS[5])) then
  return false
end
local names
if ARGV[1] == '' then
  names = redis.call('ZREVRANGEBYSCORE', KEYS[1], '+inf', '(0', 'LIMIT', 0, ARGV[2])
else
  names = redis.call('ZREVRANGEBYSCORE', KEYS[4], '+inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
end
local unread = 0
for _, stored in ipairs(redis.call('HVALS', KEYS[2])) do
  local count, muted = string.match(stored, '^(%d+) (%d+)$')
  if tonumber(muted) <= tonumber(ARGV[3]) then unread = unread + tonumber(count) end
end
local out = {unread, #names}
for _, name in ipairs(names) do out[#out + 1] = redis.call('HGET', KEYS[3], name) end
for _, stored in ipairs(redis.call('HVALS', KEYS[5])) do out[#out + 1] = stored end
return out
