-- sweep: remove the entries that expired first.
--
-- KEYS[1] scores  zset  member → score
-- KEYS[2] deaths  zset  member → Unix ms
-- ARGV[1] now     Unix ms
-- ARGV[2] chunk   maximum number of entries to remove
--
-- Returns the number of removed entries; chunk means that more may be due.
local dead = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #dead == 0 then return 0 end
redis.call('ZREM', KEYS[1], unpack(dead))
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, #dead - 1)
return #dead
