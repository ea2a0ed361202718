-- mark_gone: marks a node as dead, unless it has a later heartbeat or is already marked.
--
-- KEYS[1] nodes  sorted set  node → Unix ms of its last heartbeat, negative after its death
-- ARGV[1] node
-- ARGV[2] last   the heartbeat that the caller saw
--
-- Returns 1 to the caller that marked it, and 0 to all others.
local last = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not last or tonumber(last) ~= tonumber(ARGV[2]) or tonumber(last) <= 0 then return 0 end
redis.call('ZADD', KEYS[1], -tonumber(last), ARGV[1])
return 1
