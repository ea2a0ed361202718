-- load: make a room's register from its checkpoint, unless there is one.
--
-- KEYS[1] state  hash  see keys.go
-- ARGV[1] the key's life in milliseconds
-- ARGV[2] … the state, in the order g v i p t r s h
--
-- Returns the state that is there now, in that order.
local fields = { 'g', 'v', 'i', 'p', 't', 'r', 's', 'h' }
if redis.call('EXISTS', KEYS[1]) == 0 then
  local set = {}
  for i, name in ipairs(fields) do set[#set + 1] = name; set[#set + 1] = ARGV[i + 1] end
  redis.call('HSET', KEYS[1], unpack(set))
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return redis.call('HMGET', KEYS[1], unpack(fields))
