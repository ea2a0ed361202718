-- settle: record the outcome of one try, if the claim is still the caller's: the
-- number of deliveries rises with each claim.
--
-- KEYS[1] stream
-- KEYS[2] dead   the topic's dead letters
-- KEYS[3] notes  hash of entry → "tries that do not count, last error"
-- ARGV[1] group
-- ARGV[2] consumer that works
-- ARGV[3] id
-- ARGV[4] deliveries  when it was claimed
-- ARGV[5] outcome  done, dead, or again
-- ARGV[6] error    of the try; again: empty to keep that of the last one
-- ARGV[7] tries    dead: those that counted
-- ARGV[8] waiting  again: the consumer that holds what waits
-- ARGV[9] idle     again: how long it shall seem to have been idle, in milliseconds
-- ARGV[10] free    again: 1 if the try does not count, else 0
--
-- Returns 1, or 0 when the claim has lapsed.
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
