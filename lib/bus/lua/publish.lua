-- publish: add an event to the log and publish it to the subscribers, in one step.
--
-- KEYS[1] log      stream  entries with one field, e: the event
-- ARGV[1] verb     PUBLISH, or SPUBLISH in a cluster
-- ARGV[2] channel  its physical name; it shares the slot of the log
-- ARGV[3] keep     the smallest number of entries that the log keeps
-- ARGV[4] event    "id node topic name time data"
--
-- Returns the entry's id. The published message is "prev entry event", where prev is the id of the previous event, or 0:
-- a node with another last event has missed something. (The id of the previous entry is not enough: if the log is
-- emptied, ids can repeat within a millisecond.)
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local prev = newest and string.match(newest[2][2], '^[^ ]*') or '0'
local entry = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'e', ARGV[4])
redis.call(ARGV[1], ARGV[2], prev .. ' ' .. entry .. ' ' .. ARGV[4])
return entry
