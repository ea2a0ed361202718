-- try: count one try, up to a cap.
--
-- KEYS[1] counter  string  tries since the last success
-- ARGV[1] cap   tries allowed
-- ARGV[2] life  milliseconds, counted from the last try that was allowed
--
-- Returns {1 allowed or 0 refused, milliseconds until the count is forgotten}.
local n = tonumber(redis.call('GET', KEYS[1]) or 0)
if n >= tonumber(ARGV[1]) then return {0, redis.call('PTTL', KEYS[1])} end
redis.call('SET', KEYS[1], n + 1, 'PX', ARGV[2])
return {1, tonumber(ARGV[2])}
