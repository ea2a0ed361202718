-- acquire: acquire the lease to load a value, unless the slot has a value, another lease, or a fence.
--
-- KEYS[1] slot      string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] token     of the lease, 8 bytes, never used before
-- ARGV[2] now       Unix ms, of the servers' clock
-- ARGV[3] until     Unix ms, 13 digits: when the lease expires
-- ARGV[4] life      ms that the slot has to live for the lease
-- ARGV[5] unwanted  id of the value that the caller wants to replace, or ''
--
-- Returns nil if the caller got the lease, otherwise the unchanged slot. A value to be replaced is kept behind the
-- lease.
local v = redis.call('GET', KEYS[1])
local kept = ''
if v then
  local kind = string.sub(v, 1, 1)
  if kind == 'V' and ARGV[5] ~= '' and string.sub(v, 11, 18) == ARGV[5] then
    kept = v
  elseif kind == 'L' and tonumber(string.sub(v, 10, 22)) <= tonumber(ARGV[2]) then
    kept = string.sub(v, 23)
  else
    return v
  end
end
local life = math.max(tonumber(ARGV[4]), redis.call('PTTL', KEYS[1]))
redis.call('SET', KEYS[1], 'L' .. ARGV[1] .. ARGV[3] .. kept, 'PX', life)
return false
