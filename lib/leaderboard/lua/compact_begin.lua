-- begin: begin to load a board, unless another load is running.
--
-- KEYS[1] state  hash  the board
-- KEYS[2] held   list  changes since the load began
-- ARGV[1] token  of the load
-- ARGV[2] now    Unix ms
--
-- Returns 1, or 0 if another load is running.
if redis.call('HEXISTS', KEYS[1], 'load') == 1 then return 0 end
redis.call('UNLINK', KEYS[2])
redis.call('HSET', KEYS[1], 'load', ARGV[1], 'beat', ARGV[2])
return 1
