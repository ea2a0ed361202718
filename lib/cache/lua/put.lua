-- put: write a value over whatever is there, or remove it; a fence stays.
--
-- KEYS[1] slot   string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] value  or '' to remove what is there
-- ARGV[2] life   of the value, ms
--
-- Returns 1, or 0 when the slot is fenced: what is there cannot be read anyway,
-- and the change under way must not take its own value for the newest.
local v = redis.call('GET', KEYS[1])
if v and string.sub(v, 1, 1) == 'F' then
  redis.call('SET', KEYS[1], 'Fs' .. string.sub(v, 3), 'KEEPTTL')
  return 0
end
if ARGV[1] ~= '' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
return 1
