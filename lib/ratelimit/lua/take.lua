-- take: count some more in a window, unless it is full.
--
-- KEYS[1] counter  string  how many were taken; its life is the rest of the window
-- ARGV[1] max      how many a window holds
-- ARGV[2] window   milliseconds
-- ARGV[3] want     how many to take; beyond the first no more than a twentieth of what is left
-- ARGV[4] back     how many were taken earlier and are given back
-- ARGV[5] within   back belongs to a window that has at most so many milliseconds left
--
-- Returns {taken, 0 when refused; count; milliseconds until the window ends}.
local n = tonumber(redis.call('GET', KEYS[1]) or 0)
local left, window = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
local was, max, taken = n, tonumber(ARGV[1]), 0
-- No key, a key that lost its life, or a window that was longer in an earlier
-- configuration: the window begins now.
local begins = left < 0 or left > window
if not begins and left <= tonumber(ARGV[5]) then n = math.max(0, n - tonumber(ARGV[4])) end
if begins then left = window end

if n < max then taken = math.min(tonumber(ARGV[3]), math.max(1, math.floor((max - n) / 20))) end
n = n + taken
if n ~= was then redis.call('INCRBY', KEYS[1], n - was) end
if begins and n > 0 then redis.call('PEXPIRE', KEYS[1], left) end
return {taken, n, left}
