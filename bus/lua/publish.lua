-- publish: add an event to the log and tell who listens, in one step.
--
-- KEYS[1] log      stream  entries with one field, e: the event
-- ARGV[1] verb     PUBLISH, or SPUBLISH in a cluster
-- ARGV[2] channel  its physical name; it shares the slot of the log
-- ARGV[3] keep     how many entries the log keeps, give or take a node of it
-- ARGV[4] event    "id node topic name time data"
--
-- Returns the entry's id. What is told is "prev entry event", where prev is the
-- entry before this one, or 0-0: who has another one last has missed something.
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local prev = newest[1] and newest[1][1] or '0-0'
local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'e', ARGV[4])
redis.call(ARGV[1], ARGV[2], prev .. ' ' .. id .. ' ' .. ARGV[4])
return id
