-- try: counts one try, up to a limit.
--
-- KEYS[1] counter  string  tries since the last success
-- ARGV[1] cap   tries allowed
-- ARGV[2] life  milliseconds from the last allowed try
--
-- Returns {1 if allowed or 0 if refused, milliseconds until the count ends}.
local n = tonumber(redis.call('GET', KEYS[1]) or 0)
if n >= tonumber(ARGV[1]) then return {0, redis.call('PTTL', KEYS[1])} end
redis.call('SET', KEYS[1], n + 1, 'PX', ARGV[2])
return {1, tonumber(ARGV[2])}
