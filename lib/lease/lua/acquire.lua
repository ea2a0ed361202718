-- acquire: take the lease if nobody holds it.
--
-- KEYS[1] lease  string  "token nonce owner" of the holder; its life is the lease's
-- KEYS[2] fence  string  the last token given
-- ARGV[1] holder  "nonce owner", the nonce never used before
-- ARGV[2] life    milliseconds
-- ARGV[3] now     Unix µs by the caller; the smallest token is this or the
--                 server's time, whichever is later, so that tokens rise also
--                 when the fence was lost. The server's is that of this moment:
--                 a call may have been on its way while others were served.
-- ARGV[4] keep    milliseconds the fence lives, 0 for ever
--
-- Returns {token}, or {0, holder, milliseconds left} when somebody holds it.
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
