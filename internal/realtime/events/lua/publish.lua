-- publish: give an event the channel's next offset, store it for clients that resume, and
-- return the nodes with subscribers. The script does nothing for a channel without
-- subscribers and without clients that may resume.
--
-- KEYS[1] nodes   string  nodes with subscribers, separated by spaces
-- KEYS[2] meta    hash    e: epoch, o: offset of the newest event
-- KEYS[3] stream  stream  d: event; the entry's id begins with its offset
-- ARGV[1] the event
-- ARGV[2] number of events that are stored; 0: this one is not stored and has no offset
-- ARGV[3] milliseconds for which they are stored
-- ARGV[4] the epoch for a channel without one
-- ARGV[5] the TTL of a new meta in milliseconds
--
-- Returns nothing, or nodes, epoch and offset.
local nodes = redis.call('GET', KEYS[1])
if not nodes then return false end
if ARGV[2] == '0' then return {nodes, '', 0} end
local epoch = redis.call('HGET', KEYS[2], 'e')
if not epoch then
  epoch = ARGV[4]
  redis.call('HSET', KEYS[2], 'e', epoch)
  redis.call('PEXPIRE', KEYS[2], ARGV[5])
  redis.call('DEL', KEYS[3])
end
local offset = redis.call('HINCRBY', KEYS[2], 'o', 1)
redis.call('XADD', KEYS[3], 'MAXLEN', ARGV[2], string.format('%d-0', offset), 'd', ARGV[1])
redis.call('PEXPIRE', KEYS[3], ARGV[3])
return {nodes, epoch, offset}
