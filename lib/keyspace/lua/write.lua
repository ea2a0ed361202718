-- write: run a command on a key and set its TTL atomically. With two commands, a process that crashes between them
-- would leave a key that never expires.
--
-- KEYS[1] key      of any type
-- ARGV[1] life     TTL in ms
-- ARGV[2] once     '1': only the write that creates the key sets the TTL; else ''
-- ARGV[3] command
-- ARGV[4] …        its arguments after the key
--
-- Returns the reply of the command; a sum that Lua would round is a string.
local reply = redis.call(ARGV[3], KEYS[1], unpack(ARGV, 4))
if ARGV[2] == '' or redis.call('PTTL', KEYS[1]) == -1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
if type(reply) == 'number' and math.abs(reply) >= 2^53 then -- of INCRBY or HINCRBY
	if ARGV[3] == 'HINCRBY' then return redis.call('HGET', KEYS[1], ARGV[4]) end
	return redis.call('GET', KEYS[1])
end
return reply
