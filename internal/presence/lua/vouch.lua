-- vouch: mark the connections of a node as complete, unless its mark was lost or replaced meanwhile.
--
-- KEYS[1] nodes  hash  node -> mark
-- ARGV[1] the node
-- ARGV[2] the mark of a node that writes its connections
-- ARGV[3] the mark of a node whose connections are complete
--
-- Returns 1 if the node was marked.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
