-- settle: records the outcome of one try if the caller still holds the claim. Each claim increases the delivery count.
--
-- KEYS[1] stream
-- KEYS[2] dead   the topic's dead letters
-- KEYS[3] notes  hash of entry → "uncounted tries, last error"
-- ARGV[1] group
-- ARGV[2] consumer of claimed messages
-- ARGV[3] id
-- ARGV[4] deliveries  delivery count of the claim
-- ARGV[5] outcome  done, dead, or again
-- ARGV[6] error    of the try; again: empty keeps the last error
-- ARGV[7] tries    dead: number of counted tries
-- ARGV[8] waiting  again: the consumer of waiting messages
-- ARGV[9] idle     again: idle time to set, in milliseconds
-- ARGV[10] free    again: 1 if the try does not count, else 0
--
-- Returns 1, or 0 if the claim has expired.
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end -- Redis was emptied
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)[1]
if not pending or pending[2] ~= ARGV[2] or pending[4] ~= tonumber(ARGV[4]) then return 0 end
if ARGV[5] == 'again' then
  local note = redis.call('HGET', KEYS[3], ARGV[3]) or '0'
  local free, err = string.match(note, '^(%d+) ?(.*)$')
  if ARGV[6] ~= '' then err = ARGV[6] end
  redis.call('HSET', KEYS[3], ARGV[3], (tonumber(free) + tonumber(ARGV[10])) .. ' ' .. err)
  redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[8], 0, ARGV[3], 'IDLE', ARGV[9], 'RETRYCOUNT', ARGV[4], 'JUSTID')
  return 1
end
local entry = redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3])[1]
if entry and ARGV[5] == 'dead' then
  local f = entry[2]
  redis.call('XADD', KEYS[2], '*', f[1], f[2], f[3], f[4], 'attempts', ARGV[7], 'error', ARGV[6], 'was', ARGV[3])
end
redis.call('HDEL', KEYS[3], ARGV[3])
redis.call('XDEL', KEYS[1], ARGV[3])
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
return 1
