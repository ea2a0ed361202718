-- listen: put a node among those that listen to a channel, and tell where the channel
-- stands. Nodes that do not live any more are taken off.
--
-- KEYS[1] nodes  string  the nodes that listen, with spaces between them
-- KEYS[2] meta   hash    e: epoch, o: offset of the newest event
-- ARGV[1] the node
-- ARGV[2] the keys' life in milliseconds
-- ARGV[3] the epoch of a channel that has none
-- ARGV[4] the nodes that live, with spaces between them; empty: nobody knows
--
-- Returns epoch, offset, and 1 where the node was among them already.
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
