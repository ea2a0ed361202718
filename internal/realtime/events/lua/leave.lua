-- leave: take a node off those that listen to a channel. After the last one, events are
-- kept for a while for whoever resumes.
--
-- KEYS[1] nodes  string  the nodes that listen, with spaces between them
-- KEYS[2] meta   hash    e: epoch, o: offset of the newest event
-- ARGV[1] the node
-- ARGV[2] milliseconds for which a listener may resume
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
