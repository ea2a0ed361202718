-- take: count one more in a window, unless it is full.
--
-- KEYS[1] counter  string  how many were taken; its life is the rest of the window
-- ARGV[1] max      how many a window holds
-- ARGV[2] window   milliseconds
--
-- Returns {1 taken or 0 refused, count, milliseconds until the window ends}.
local n = tonumber(redis.call('GET', KEYS[1]) or 0)
local left, window = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
-- No key, a key that lost its life, or a window that was longer in an earlier
-- configuration: the window begins now.
local begins = left < 0 or left > window
if begins then left = window end

local taken = n < tonumber(ARGV[1]) and 1 or 0
if taken == 1 then n = redis.call('INCR', KEYS[1]) end
if begins and n > 0 then redis.call('PEXPIRE', KEYS[1], left) end
return {taken, n, left}
