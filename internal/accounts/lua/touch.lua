-- touch: stores the last use of a session and its facts.
--
-- KEYS[1] user:session:{uid}:{device}  hash  device, agent, ip, login, used
-- ARGV[1] used  Unix ms
-- ARGV[2] life  ms, from now on
-- ARGV[3] …     the other fields and values; may be missing
--
-- Returns 1, or 0 if there is no entry and no fields are given. A later use stays.
if #ARGV == 2 and redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local used = tonumber(redis.call('HGET', KEYS[1], 'used') or 0)
redis.call('HSET', KEYS[1], 'used', string.format('%d', math.max(used, tonumber(ARGV[1]))), unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
