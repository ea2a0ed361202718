-- leave: remove a node from a channel's list of nodes with subscribers. After the last one, events
-- stay for a while for clients that resume.
--
-- KEYS[1] nodes  string  nodes with subscribers, separated by spaces
-- KEYS[2] meta   hash    e: epoch, o: offset of the newest event
-- ARGV[1] the node
-- ARGV[2] milliseconds in which a client may resume
local nodes, before = '', redis.call('GET', KEYS[1])
for node in string.gmatch(before or '', '%S+') do
  if node ~= ARGV[1] then nodes = nodes == '' and node or nodes .. ' ' .. node end
end
if nodes ~= '' then
  redis.call('SET', KEYS[1], nodes, 'KEEPTTL')
elseif before and before ~= '' then
  redis.call('SET', KEYS[1], '', 'PX', ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return 0
