-- atomic: run commands one after the other, without commands of other clients in between. As with EXEC, a command that
-- fails does not stop the others.
--
-- KEYS[1] …        the keys of all commands, in order
-- ARGV[1] …        for each command: its TTL in ms or '', once ('1' or ''), the number of the
--                  key that gets the TTL, the number of arguments before its keys, the number of
--                  keys, the number of arguments, its name, its arguments
--
-- Returns a list with the reply of each command, errors included. A sum that Lua would round is a string.
local replies, key, arg = {}, 0, 1
while arg <= #ARGV do
	local life, once, which, before = ARGV[arg], ARGV[arg + 1], tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
	local keys, args = tonumber(ARGV[arg + 4]), tonumber(ARGV[arg + 5])
	local call = {ARGV[arg + 6]}
	arg = arg + 6
	for i = 1, before do call[#call + 1] = ARGV[arg + i] end
	for i = 1, keys do call[#call + 1] = KEYS[key + i] end
	for i = before + 1, args do call[#call + 1] = ARGV[arg + i] end
	local reply = redis.pcall(unpack(call))
	local written = KEYS[key + which]
	local failed = type(reply) == 'table' and reply.err
	if life ~= '' and not failed and (once == '' or redis.call('PTTL', written) == -1) then redis.call('PEXPIRE', written, life) end
	if type(reply) == 'number' and math.abs(reply) >= 2^53 then -- of INCRBY or HINCRBY
		if call[1] == 'HINCRBY' then reply = redis.pcall('HGET', call[2], call[3]) else reply = redis.pcall('GET', call[2]) end
	end
	replies[#replies + 1] = reply
	key, arg = key + keys, arg + args + 1
end
return replies
