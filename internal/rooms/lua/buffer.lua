-- buffer: note whose player waits for data, or does not any more.
--
-- KEYS[1] buffering  sorted set  viewers by the Unix ms until when
-- ARGV[1] the servers' time, Unix ms
-- ARGV[2] the viewer; empty: nobody, only look
-- ARGV[3] the Unix ms until when they wait; 0: they do not
-- ARGV[4] the key's life in milliseconds
--
-- Returns how many wait.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
if ARGV[2] ~= '' then
  if ARGV[3] == '0' then
    redis.call('ZREM', KEYS[1], ARGV[2])
  else
    redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2])
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
  end
end
return redis.call('ZCARD', KEYS[1])
