-- begin: join the running load, or begin one.
--
-- KEYS[1] loaded  string  '0' while loading, '1' once loaded; then the load's token
-- ARGV[1] token   a new one, for a new load
--
-- Returns the present token.
local held = redis.call('GET', KEYS[1])
if held then return string.sub(held, 2) end
redis.call('SET', KEYS[1], '0' .. ARGV[1])
return ARGV[1]
