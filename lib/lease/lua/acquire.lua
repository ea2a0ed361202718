-- acquire: acquire the lease if it is free.
--
-- KEYS[1] lease  string  "token nonce owner" of the holder; its TTL is the lease's
-- KEYS[2] fence  string  the last token
-- ARGV[1] holder  "nonce owner"; the nonce is unique
-- ARGV[2] life    milliseconds
-- ARGV[3] now     the caller's clock in Unix µs. The smallest token is this or the
--                 server's time, whichever is later, so that tokens also rise if
--                 the fence was lost. The server's time is read in the script,
--                 because other calls may run before a delayed one.
-- ARGV[4] keep    the TTL of the fence in milliseconds, 0 for no TTL
--
-- Returns {token}, or {0, holder, milliseconds left} if the lease is held.
local left = redis.call('PTTL', KEYS[1])
if left >= 0 then return {0, redis.call('GET', KEYS[1]), left} end
local time = redis.call('TIME')
local now = math.max(tonumber(ARGV[3]), tonumber(time[1]) * 1000000 + tonumber(time[2]))
local token = math.max(tonumber(redis.call('GET', KEYS[2]) or 0) + 1, now)
local text = string.format('%.0f', token)
if ARGV[4] == '0' then
  redis.call('SET', KEYS[2], text)
else
  redis.call('SET', KEYS[2], text, 'PX', ARGV[4])
end
redis.call('SET', KEYS[1], text .. ' ' .. ARGV[1], 'PX', ARGV[2])
return {token}
