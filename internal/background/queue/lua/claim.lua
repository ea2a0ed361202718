-- claim: take messages whose time has come: those of dead consumers and those
-- to be tried again first, then new ones.
--
-- KEYS[1] stream
-- KEYS[2] notes   hash of entry → "tries that do not count, last error"
-- ARGV[1] group
-- ARGV[2] consumer that works
-- ARGV[3] idle    milliseconds after which a message is free
-- ARGV[4] count   how many at most
-- ARGV[5] cursor  where to go on among the pending ones
--
-- Returns {cursor, {id, deliveries, tries that do not count, fields}…}. A cursor other than 0-0 says that
-- not all pending ones were looked at: a call looks at some thousands.
if redis.call('EXISTS', KEYS[1]) == 0 then return {'0-0'} end
if #redis.call('XINFO', 'GROUPS', KEYS[1]) == 0 then redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0') end
local want, cursor = tonumber(ARGV[4]), ARGV[5]
local out, again = {cursor}, cursor ~= '0-0' -- those before the cursor may have become free again
for _ = 1, 20 do
  local lapsed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], cursor, 'COUNT', want - #out + 1)
  cursor = lapsed[1]
  for _, entry in ipairs(lapsed[2]) do
    if entry then -- Redis 6.2 tells of deleted ones, by nil
      local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)[1]
      local note = redis.call('HGET', KEYS[2], entry[1]) or '0'
      out[#out + 1] = {entry[1], pending[4], tonumber(string.match(note, '^%d+')), entry[2]}
    end
  end
  if #out > want or cursor == '0-0' and not again then break end
  again = again and cursor ~= '0-0'
end
if #out <= want then
  local fresh = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', want - #out + 1, 'STREAMS', KEYS[1], '>')
  if fresh then
    for _, entry in ipairs(fresh[1][2]) do out[#out + 1] = {entry[1], 1, 0, entry[2]} end
  end
end
out[1] = cursor
return out
