-- touch: note a session's last use, and what is known of it.
--
-- KEYS[1] user:session:{uid}:{device}  hash  device, agent, ip, login, used
-- ARGV[1] used  Unix ms
-- ARGV[2] life  ms, from now on
-- ARGV[3] …     the other fields, each before its value; none: they are not known
--
-- Returns 1, or 0 when nothing is there and nothing is known. A later use stays.
if #ARGV == 2 and redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local used = tonumber(redis.call('HGET', KEYS[1], 'used') or 0)
redis.call('HSET', KEYS[1], 'used', string.format('%d', math.max(used, tonumber(ARGV[1]))), unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
