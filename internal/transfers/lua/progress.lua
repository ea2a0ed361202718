-- progress: store a transfer's progress, unless Redis has a newer one.
--
-- KEYS[1] progress  hash  status, stored, received, percent, chunk, chunks
-- ARGV[1] the key's life in milliseconds
-- ARGV[2] status
-- ARGV[3] stored
-- ARGV[4] received
-- ARGV[5] percent
-- ARGV[6] chunk
-- ARGV[7] chunks
--
-- Returns 1 if it was stored.
local there = redis.call('HMGET', KEYS[1], 'status', 'stored')
if tonumber(there[1] or 0) > tonumber(ARGV[2]) or tonumber(there[2] or 0) > tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[2], 'stored', ARGV[3], 'received', ARGV[4], 'percent', ARGV[5], 'chunk', ARGV[6], 'chunks', ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
