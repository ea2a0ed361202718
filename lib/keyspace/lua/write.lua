-- write: carry out a command on a key and give the key its life, in one step: a
-- process that dies between the two would leave a key for ever.
--
-- KEYS[1] key      of any type
-- ARGV[1] life     ms
-- ARGV[2] once     '1': counted from the write that made the key, else ''
-- ARGV[3] command
-- ARGV[4] …        its arguments behind the key
--
-- Returns what the command does; a sum that Lua would round, as a text.
local reply = redis.call(ARGV[3], KEYS[1], unpack(ARGV, 4))
if ARGV[2] == '' or redis.call('PTTL', KEYS[1]) == -1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
if type(reply) == 'number' and math.abs(reply) >= 2^53 then -- of INCRBY or HINCRBY
	if ARGV[3] == 'HINCRBY' then return redis.call('HGET', KEYS[1], ARGV[4]) end
	return redis.call('GET', KEYS[1])
end
return reply
