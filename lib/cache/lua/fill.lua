-- fill: put a loaded value in the place of the lease under which it was loaded.
--
-- KEYS[1] slot   string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] token  of the lease
-- ARGV[2] value  to put there, or '' to give the lease up
-- ARGV[3] life   of the value, ms; without one 0 when a kept value returns, and -1
--                when it goes
--
-- Returns 1, or 0 when the lease is gone: a change has come between.
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
