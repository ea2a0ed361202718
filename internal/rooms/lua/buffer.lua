-- buffer: record whether a viewer's player waits for data, and count the viewers that the room waits for.
--
-- KEYS[1] buffering  sorted set  viewers by the Unix ms at which their last report expires
-- KEYS[2] holding    sorted set  viewers that the room waits for, by the Unix ms at which the wait ends
-- ARGV[1] the servers' time, Unix ms
-- ARGV[2] the viewer; empty: only count
-- ARGV[3] the Unix ms at which the report expires; 0: the player has data
-- ARGV[4] the Unix ms at which the room's wait ends, if this is the viewer's first report
-- ARGV[5] the keys' life in milliseconds
--
-- Returns the number of viewers that the room waits for. The room no longer waits for a viewer who is only in KEYS[1].
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])) do
  redis.call('ZREM', KEYS[2], silent)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[1])
if ARGV[2] ~= '' then
  if ARGV[3] == '0' then
    redis.call('ZREM', KEYS[1], ARGV[2])
    redis.call('ZREM', KEYS[2], ARGV[2])
  else
    if redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2]) == 1 then redis.call('ZADD', KEYS[2], ARGV[4], ARGV[2]) end
    redis.call('PEXPIRE', KEYS[1], ARGV[5])
    redis.call('PEXPIRE', KEYS[2], ARGV[5])
  end
end
return redis.call('ZCARD', KEYS[2])
