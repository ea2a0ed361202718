-- replace: replace a record that was read before, unless it has changed since. A
-- key of another type is deleted, so that the next read loads the record.
--
-- KEYS[1] user:sign:{uid}:{year}  string  108 bytes, see streak.Record
-- ARGV[1] the record that was looked at; empty for a key of another type
-- ARGV[2] the record from SQL, 108 bytes
-- ARGV[3] the key's life in milliseconds
--
-- Returns 1, or 0 if the key has another value now.
local kind = redis.call('TYPE', KEYS[1])
if type(kind) == 'table' then kind = kind.ok end
if kind ~= 'string' then
  if ARGV[1] ~= '' or kind == 'none' then return 0 end
  redis.call('UNLINK', KEYS[1])
  return 1
end
if ARGV[1] == '' or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
