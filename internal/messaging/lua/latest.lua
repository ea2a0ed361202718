-- latest: stores the latest messages of a chat, unless the stored ones are newer.
--
-- KEYS[1] latest  list  seq and rev of the chat, then its latest messages in their order
-- ARGV[1] the key's TTL in milliseconds
-- ARGV[2] seq
-- ARGV[3] rev
-- then the messages
--
-- Returns 1 if they were written.
local seq, rev = string.match(redis.call('LINDEX', KEYS[1], 0) or '', '^(%d+) (%d+)$')
if seq and seq + rev > ARGV[2] + ARGV[3] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('RPUSH', KEYS[1], ARGV[2] .. ' ' .. ARGV[3])
for i = 4, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
