-- listen: add a node to a channel's list of nodes with subscribers, and return the channel's
-- position. Nodes that are no longer alive are removed.
--
-- KEYS[1] nodes  string  nodes with subscribers, separated by spaces
-- KEYS[2] meta   hash    e: epoch, o: offset of the newest event
-- ARGV[1] the node
-- ARGV[2] the keys' TTL in milliseconds
-- ARGV[3] the epoch for a channel without one
-- ARGV[4] the live nodes, separated by spaces; empty: unknown
--
-- Returns epoch, offset, and 1 if the node was already in the list.
local nodes, listed = ARGV[1], 0
for node in string.gmatch(redis.call('GET', KEYS[1]) or '', '%S+') do
  if node == ARGV[1] then
    listed = 1
  elseif ARGV[4] == '' or string.find(ARGV[4], node, 1, true) then
    nodes = nodes .. ' ' .. node
  end
end
redis.call('SET', KEYS[1], nodes, 'PX', ARGV[2])
local at = redis.call('HMGET', KEYS[2], 'e', 'o')
if not at[1] then
  at = {ARGV[3], '0'}
  redis.call('HSET', KEYS[2], 'e', at[1], 'o', at[2])
end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {at[1], at[2], listed}
