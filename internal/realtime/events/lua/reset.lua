-- reset: begin a new epoch of a channel that lost an event, so that every listener
-- detects the loss. The script does nothing for a channel without subscribers and without
-- clients that may resume, or whose epoch has already changed.
--
-- KEYS[1] nodes   string  nodes with subscribers, separated by spaces
-- KEYS[2] meta    hash    e: epoch, o: offset of the newest event
-- KEYS[3] stream  stream  d: event
-- ARGV[1] the new epoch
-- ARGV[2] the epoch to end; empty: any epoch
--
-- Returns nothing, or the nodes.
local nodes = redis.call('GET', KEYS[1])
local epoch = redis.call('HGET', KEYS[2], 'e')
if not nodes or not epoch or (ARGV[2] ~= '' and ARGV[2] ~= epoch) then return false end
redis.call('HSET', KEYS[2], 'e', ARGV[1], 'o', 0)
redis.call('DEL', KEYS[3])
return nodes
