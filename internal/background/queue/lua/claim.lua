-- claim: claims due messages. Messages of dead consumers and messages to retry come first, then new ones.
--
-- KEYS[1] stream
-- KEYS[2] notes   hash of entry → "uncounted tries, last error"
-- ARGV[1] group
-- ARGV[2] consumer of claimed messages
-- ARGV[3] idle    milliseconds of idle time after which a message is free
-- ARGV[4] count   maximum number of messages
-- ARGV[5] cursor  position in the pending entries
--
-- Returns {cursor, {id, deliveries, uncounted tries, fields}…}. If the cursor is not 0-0, pending entries remain: one
-- call checks a few thousand.
if redis.call('EXISTS', KEYS[1]) == 0 then return {'0-0'} end
if #redis.call('XINFO', 'GROUPS', KEYS[1]) == 0 then redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0') end
local want, cursor = tonumber(ARGV[4]), ARGV[5]
local out, again = {cursor}, cursor ~= '0-0' -- entries before the cursor may be free again
for _ = 1, 20 do
  local lapsed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], cursor, 'COUNT', want - #out + 1)
  cursor = lapsed[1]
  for _, entry in ipairs(lapsed[2]) do
    if entry then -- Redis 6.2 returns nil for a deleted entry
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
