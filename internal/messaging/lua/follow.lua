-- follow: applies changes of a chat to its latest messages, if they are stored here.
--
-- KEYS[1] latest  list  seq and rev of the chat, then its latest messages in their order
-- ARGV[1] the key's TTL in milliseconds, which is renewed in its second half
-- ARGV[2] number of messages to keep; up to a tenth more stay, so that not every message trims the list
-- then three for each change:
--   seq '' message       a new message
--   seq rev message      a message was changed
--   ''  rev ''           a change of no message
--
-- A change that does not follow the last one is omitted. Readers see from seq and rev that one
-- is missing. Returns 1, or 0 if the key does not exist.
local seq, rev = string.match(redis.call('LINDEX', KEYS[1], 0) or '', '^(%d+) (%d+)$')
if not seq then return 0 end
seq, rev = tonumber(seq), tonumber(rev)
local length = 0
for i = 3, #ARGV, 3 do
  local at, change = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  if not change then
    if at == seq + 1 then
      length = redis.call('RPUSH', KEYS[1], ARGV[i + 2])
      seq = at
    end
  elseif change == rev + 1 then
    if at then
      local place = redis.call('LLEN', KEYS[1]) - 1 - (seq - at)
      if at <= seq and place > 0 then redis.call('LSET', KEYS[1], place, ARGV[i + 2]) end
      if at <= seq then rev = change end
    else
      rev = change
    end
  end
end
local surplus = length - 1 - ARGV[2]
if surplus > ARGV[2] / 10 then redis.call('LTRIM', KEYS[1], surplus, -1) end
redis.call('LSET', KEYS[1], 0, seq .. ' ' .. rev)
if redis.call('PTTL', KEYS[1]) < ARGV[1] / 2 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 1
