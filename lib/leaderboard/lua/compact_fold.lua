-- fold: replace the board that was read with a new one, and remove the folded changes.
--
-- KEYS[1] state  hash  the board; field 'load' while it is being loaded
-- KEYS[2] log    list  changes
-- KEYS[3] held   list  changes since the running load began
-- ARGV[1] seen   the version that was read, '' for none
-- ARGV[2] new    the new version
-- ARGV[3] n      number of elements of the log that were folded
-- ARGV[4] …      field and value, for each field that has changed
--
-- Returns 1, or 0 if another fold has happened since: nothing is changed then.
if (redis.call('HGET', KEYS[1], 'v') or '') ~= ARGV[1] then return 0 end

local n = tonumber(ARGV[3])
if n > 0 then
  if redis.call('HEXISTS', KEYS[1], 'load') == 1 then
    redis.call('RPUSH', KEYS[3], unpack(redis.call('LRANGE', KEYS[2], 0, n - 1)))
  end
  redis.call('LTRIM', KEYS[2], n, -1)
end
redis.call('HSET', KEYS[1], 'v', ARGV[2], unpack(ARGV, 4))
return 1
