-- place: run a command that has several keys, or arguments before its keys, and set the TTL of one of the keys
-- atomically.
--
-- KEYS[1] …        the keys of the command, in order
-- ARGV[1] life     TTL in ms; '' for a key that never expires or is not written
-- ARGV[2] once     '1': only the write that creates the key sets the TTL; else ''
-- ARGV[3] which    the number of the key that gets the TTL
-- ARGV[4] before   the number of arguments before the keys
-- ARGV[5] command
-- ARGV[6] …        its arguments
--
-- Returns the reply of the command.
local call = {ARGV[5]}
for i = 6, 5 + tonumber(ARGV[4]) do call[#call + 1] = ARGV[i] end
for _, key in ipairs(KEYS) do call[#call + 1] = key end
for i = 6 + tonumber(ARGV[4]), #ARGV do call[#call + 1] = ARGV[i] end
local reply = redis.call(unpack(call))
local key = KEYS[tonumber(ARGV[3])]
if ARGV[1] ~= '' and (ARGV[2] == '' or redis.call('PTTL', key) == -1) then redis.call('PEXPIRE', key, ARGV[1]) end
return reply
