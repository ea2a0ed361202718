-- fold: put a board in place of the one that was read, and drop what was folded.
--
-- KEYS[1] state  hash  the board; field 'load' while it is being loaded
-- KEYS[2] log    list  changes
-- KEYS[3] held   list  changes that a load under way has to know of
-- ARGV[1] seen   the version that was read, '' for none
-- ARGV[2] new    the version to be
-- ARGV[3] n      how many elements of the log were folded
-- ARGV[4] …      field and value, for each field that has changed
--
-- Returns 1, or 0 when somebody has folded since: nothing is changed then.
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
