-- put: replace the content of a slot with a value, or remove it; a fence stays.
--
-- KEYS[1] slot   string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] value  or '' to remove the content
-- ARGV[2] life   of the value, ms
-- ARGV[3] until  Unix ms, of the servers' clock: a later value is not written. Its
--                caller has given up, and others may have changed the value since:
--                the content is removed.
--
-- Returns 1, or 0 if the slot is fenced: its content cannot be read anyway, and the change under way must not store its
-- own value as the newest.
local v = redis.call('GET', KEYS[1])
if v and string.sub(v, 1, 1) == 'F' then
  redis.call('SET', KEYS[1], 'Fs' .. string.sub(v, 3), 'KEEPTTL')
  return 0
end
local time = redis.call('TIME')
if ARGV[1] ~= '' and tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000 < tonumber(ARGV[3]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
return 1
