-- put: stores chats of a user, each unless the stored one is newer or has a part that is newer.
--
-- KEYS[1] recent   zset  chat → place in the list
-- KEYS[2] unread   hash  chat → unread messages, end of the mute
-- KEYS[3] chats    hash  chat → three versions, place, change, unread, muted, state; '' → all chats are stored: length of KEYS[5]
-- KEYS[4] changes  zset  chat → Unix ms of its last change
-- KEYS[5] groups   hash  chat of a group → three versions and the user's own part
-- ARGV[1] the keys' TTL in milliseconds, which is renewed in its second half
-- ARGV[2] the number of all chats with their last part; '+' with an earlier part; '' with single chats
-- then for each chat its name and its value in KEYS[3]
--
-- Returns the number of chats that were not written, because a part of them is newer and another part is older.
local count = redis.call('HGET', KEYS[3], '')
local groups = redis.call('HLEN', KEYS[5])
local complete = count == tostring(groups) -- true before this call, and so after it
local rewrite = ARGV[2] ~= '' -- also write the smaller parts of chats that are not newer: one may be lost
local conflicts, added = 0, rewrite and 1 or 0
for i = 3, #ARGV, 2 do
  local name, state = ARGV[i], ARGV[i + 1]
  local grouped = string.sub(name, 1, 2) == 'g:'
  local key = grouped and KEYS[5] or KEYS[3]
  local stored = redis.call('HGET', key, name)
  local newer, older = false, false
  local is = {string.match(stored or '-1 -1 -1 ', '^(-?%d+) (-?%d+) (-?%d+) ')}
  for part, version in ipairs({string.match(state, '^(%d+) (%d+) (%d+) ')}) do
    newer = newer or tonumber(version) > tonumber(is[part])
    older = older or tonumber(version) < tonumber(is[part])
  end
  if newer and older then conflicts = conflicts + 1 end
  newer = newer and not older
  if newer then
    added = added + redis.call('HSET', key, name, state)
  else
    state = stored
  end
  if not grouped and (newer or rewrite) then
    local place, changed, unread, muted = string.match(state, '^%d+ %d+ %d+ (%d+) (%d+) (%d+) (%d+) ')
    added = added + redis.call('ZADD', KEYS[1], place, name)
    added = added + redis.call('HSET', KEYS[2], name, unread .. ' ' .. muted)
    added = added + redis.call('ZADD', KEYS[4], changed, name)
  end
end
if added > 0 then
  local all = tonumber(ARGV[2])
  groups = redis.call('HLEN', KEYS[5])
  if all then -- an earlier part may have been refused or evicted
    complete = redis.call('HLEN', KEYS[3]) - (count and 1 or 0) + groups >= all
  end
  if complete then redis.call('HSET', KEYS[3], '', groups) end
end
if count and not complete then redis.call('HDEL', KEYS[3], '') end -- a part was lost
if added > 0 or redis.call('PTTL', KEYS[3]) < ARGV[1] / 2 then
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end
end
return conflicts
