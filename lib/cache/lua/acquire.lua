-- acquire: become the one who loads a value, unless it is there, somebody is at
-- it already, or it is being changed.
--
-- KEYS[1] slot      string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] token     of the lease, 8 bytes, never used before
-- ARGV[2] now       Unix ms, of the servers' clock
-- ARGV[3] until     Unix ms, 13 digits: when the lease lapses
-- ARGV[4] life      ms that the slot has to live for the lease
-- ARGV[5] unwanted  id of the value that the caller wants to replace, or ''
--
-- Returns nil when the lease is the caller's, else the slot as it stays. A value
-- that is to be replaced is kept behind the lease.
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
