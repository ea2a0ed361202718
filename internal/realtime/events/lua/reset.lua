-- reset: begin a new epoch of a channel of which an event was lost, so that every
-- listener notices. Nothing happens on a channel that has no listener and nobody who
-- could resume, or whose epoch has been changed already.
--
-- KEYS[1] nodes   string  the nodes that listen, with spaces between them
-- KEYS[2] meta    hash    e: epoch, o: offset of the newest event
-- KEYS[3] stream  stream  d: event
-- ARGV[1] the new epoch
-- ARGV[2] the epoch that is to end; empty: whichever it is
--
-- Returns nothing, or the nodes.
local nodes = redis.call('GET', KEYS[1])
local epoch = redis.call('HGET', KEYS[2], 'e')
if not nodes or not epoch or (ARGV[2] ~= '' and ARGV[2] ~= epoch) then return false end
redis.call('HSET', KEYS[2], 'e', ARGV[1], 'o', 0)
redis.call('DEL', KEYS[3])
return nodes
