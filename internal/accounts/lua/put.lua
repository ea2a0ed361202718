-- put: write a session's copy unless a newer one, or a tombstone, is there.
--
-- KEYS[1] auth:at:{uid}:{device}  string  "rev …", see keys.go
-- ARGV[1] rev    the copy's revision
-- ARGV[2] value  the copy, which begins with its revision
-- ARGV[3] life   milliseconds
--
-- Returns 1, or 0 when what is there is at least as new.
local cur = redis.call('GET', KEYS[1])
if cur and tonumber(string.match(cur, '^%d+')) >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
