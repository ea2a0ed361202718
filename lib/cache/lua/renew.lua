-- renew: replace a value's text with the same value and a later end of its soft life.
--
-- KEYS[1] slot   string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] id     of the value
-- ARGV[2] value  the new text
--
-- Returns 1, or 0 if the slot has other content now.
local v = redis.call('GET', KEYS[1])
if not v or string.sub(v, 1, 1) ~= 'V' or string.sub(v, 11, 18) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
