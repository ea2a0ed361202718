-- finish: mark the board as loaded, unless it was emptied since begin.
--
-- KEYS[1] loaded  string  '0' while loading, '1' once loaded; then the load's token
-- ARGV[1] token   the result of begin
--
-- Returns 1, or 0 if the token no longer exists.
if string.sub(redis.call('GET', KEYS[1]) or '', 2) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], '1' .. ARGV[1])
return 1
