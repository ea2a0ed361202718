-- place: carry out a command whose keys do not stand first or are several, and give one
-- of them its life in the same step.
--
-- KEYS[1] …        the command's keys, in its order
-- ARGV[1] life     ms; '' for a key that lives for ever, or that is not written
-- ARGV[2] once     '1': counted from the write that made the key, else ''
-- ARGV[3] which    number of the key that gets the life
-- ARGV[4] before   how many arguments stand before the keys
-- ARGV[5] command
-- ARGV[6] …        its arguments
--
-- Returns what the command does.
local call = {ARGV[5]}
for i = 6, 5 + tonumber(ARGV[4]) do call[#call + 1] = ARGV[i] end
for _, key in ipairs(KEYS) do call[#call + 1] = key end
for i = 6 + tonumber(ARGV[4]), #ARGV do call[#call + 1] = ARGV[i] end
local reply = redis.call(unpack(call))
local key = KEYS[tonumber(ARGV[3])]
if ARGV[1] ~= '' and (ARGV[2] == '' or redis.call('PTTL', key) == -1) then redis.call('PEXPIRE', key, ARGV[1]) end
return reply
