-- put: write a value over whatever is there, or remove it; a fence stays.
--
-- KEYS[1] slot   string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] value  or '' to remove what is there
-- ARGV[2] life   of the value, ms
-- ARGV[3] until  Unix ms, of the servers' clock: a value that comes later is not
--                written. Its caller has given it up, and others may have changed
--                it since: what is there is removed.
--
-- Returns 1, or 0 when the slot is fenced: what is there cannot be read anyway,
-- and the change under way must not take its own value for the newest.
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
