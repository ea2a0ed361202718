-- begin: begin to load a board, unless somebody else is at it.
--
-- KEYS[1] state   hash  the board
-- KEYS[2] held    list  changes that the load has to know of
-- ARGV[1] token   of the load
-- ARGV[2] now     Unix ms
-- ARGV[3] oldest  Unix ms; a load that was last heard of before is given up
--
-- Returns 1, or 0 when somebody else is at it.
local beat = redis.call('HGET', KEYS[1], 'beat')
if beat and tonumber(beat) >= tonumber(ARGV[3]) then return 0 end
redis.call('UNLINK', KEYS[2])
redis.call('HSET', KEYS[1], 'load', ARGV[1], 'beat', ARGV[2])
return 1
