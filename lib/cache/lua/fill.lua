-- fill: replace a lease with the value that was loaded under it.
--
-- KEYS[1] slot   string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] token  of the lease
-- ARGV[2] value  to store, or '' to release the lease
-- ARGV[3] life   of the value, ms; without a value, 0 restores a kept value and -1
--                removes it
--
-- Returns 1, or 0 if the lease is gone, because a change happened in between.
local v = redis.call('GET', KEYS[1])
if not v or string.sub(v, 1, 9) ~= 'L' .. ARGV[1] then return 0 end
if ARGV[2] ~= '' then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
elseif #v > 22 and ARGV[3] ~= '-1' then
  redis.call('SET', KEYS[1], string.sub(v, 23), 'KEEPTTL')
else
  redis.call('DEL', KEYS[1])
end
return 1
