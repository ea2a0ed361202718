-- giveback: undo one take, if its window has not ended.
--
-- KEYS[1] counter  string  the number of calls; its TTL is the rest of the window
-- ARGV[1] left     milliseconds until the window ended, in the reply of take
--
-- Returns 1, or 0 if there is nothing to undo. If the window has more time left than
-- ARGV[1], it is a later one.
local n = tonumber(redis.call('GET', KEYS[1]) or 0)
local left = redis.call('PTTL', KEYS[1])
if n < 1 or left < 0 or left > tonumber(ARGV[1]) then return 0 end
redis.call('DECR', KEYS[1])
return 1
