-- fence: nobody may store a value from now on, until the change is finished.
--
-- KEYS[1] slot   string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] token  of the change, 8 bytes, never used before
-- ARGV[2] life   ms: the longest that a change may take
--
-- Returns 1. Several changes at once share the fence, which then says so.
local v = redis.call('GET', KEYS[1])
local open = 'F0'
if v and string.sub(v, 1, 1) == 'F' then open = 'Fs' .. string.sub(v, 3) end
redis.call('SET', KEYS[1], open .. ARGV[1], 'PX', ARGV[2])
return 1
