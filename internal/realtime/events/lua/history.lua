-- history: return the events of a channel after an offset.
--
-- KEYS[1] meta    hash    e: epoch, o: offset of the newest event
-- KEYS[2] stream  stream  d: event; the entry's id begins with its offset
-- ARGV[1] the offset
-- ARGV[2] the largest number of events
--
-- Returns nothing for a channel without meta; otherwise epoch, offset, and the id and event of each entry.
local at = redis.call('HMGET', KEYS[1], 'e', 'o')
if not at[1] then return false end
local out = {at[1], at[2] or '0'}
if ARGV[2] ~= '0' then
  for _, entry in ipairs(redis.call('XRANGE', KEYS[2], string.format('%d-0', tonumber(ARGV[1]) + 1), '+', 'COUNT', ARGV[2])) do
    out[#out + 1] = entry[1]
    out[#out + 1] = entry[2][2]
  end
end
return out
