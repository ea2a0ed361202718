-- sweep: remove the longest dead.
--
-- KEYS[1] scores  zset  member → score
-- KEYS[2] deaths  zset  member → Unix ms
-- ARGV[1] now     Unix ms
-- ARGV[2] chunk   how many at the most
--
-- Returns how many were removed; chunk means that more may be due.
local dead = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #dead == 0 then return 0 end
redis.call('ZREM', KEYS[1], unpack(dead))
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, #dead - 1)
return #dead
