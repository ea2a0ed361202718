-- take: count some calls in a window, unless it is full.
--
-- KEYS[1] counter  string  the number of calls; its TTL is the rest of the window
-- ARGV[1] max      the largest number of calls in a window
-- ARGV[2] window   milliseconds
-- ARGV[3] want     the number of calls to count; after the first, at most a twentieth of the rest
-- ARGV[4] back     the number of calls that were counted earlier and are returned
-- ARGV[5] within   back belongs to a window with at most this many milliseconds left
--
-- Returns {counted, 0 if refused; count; milliseconds until the window ends}.
local n = tonumber(redis.call('GET', KEYS[1]) or 0)
local left, window = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
local was, max, taken = n, tonumber(ARGV[1]), 0
-- The window begins now if there is no key, if the key has no TTL, or if an earlier configuration had a longer window.
local begins = left < 0 or left > window
if not begins and left <= tonumber(ARGV[5]) then n = math.max(0, n - tonumber(ARGV[4])) end
if begins then left = window end

if n < max then taken = math.min(tonumber(ARGV[3]), math.max(1, math.floor((max - n) / 20))) end
n = n + taken
if n ~= was then redis.call('INCRBY', KEYS[1], n - was) end
if begins and n > 0 then redis.call('PEXPIRE', KEYS[1], left) end
return {taken, n, left}
