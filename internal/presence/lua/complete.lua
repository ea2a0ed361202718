-- complete: mark the connections of a node as complete, unless its mark was lost or replaced meanwhile.
--
-- KEYS[1] nodes  hash  node -> mark
-- ARGV[1] the node
-- ARGV[2] the mark that the node must have: it writes its connections
-- ARGV[3] the new mark: its connections are complete
--
-- Returns 1 if the node was marked, else 0.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
