-- giveback: undo one take, if its window still runs.
--
-- KEYS[1] counter  string  how many were taken; its life is the rest of the window
-- ARGV[1] left     milliseconds until the window ended, as take said
--
-- Returns 1, or 0 when there is nothing to give back to. The window is another
-- one if it has more left than its predecessor had.
local n = tonumber(redis.call('GET', KEYS[1]) or 0)
local left = redis.call('PTTL', KEYS[1])
if n < 1 or left < 0 or left > tonumber(ARGV[1]) then return 0 end
redis.call('DECR', KEYS[1])
return 1
