-- load: store a room's register, unless Redis has another one than the one to replace.
--
-- KEYS[1] state  hash  see keys.go
-- ARGV[1] the key's life in milliseconds
-- ARGV[2] generation and
-- ARGV[3] version of the register to replace; 0 and 0: none
-- ARGV[4] … the state, in the order g v i p t r s h
--
-- Returns the present state in that order.
local fields = { 'g', 'v', 'i', 'p', 't', 'r', 's', 'h' }
local was = redis.call('HMGET', KEYS[1], 'g', 'v')
if not was[1] or was[1] == ARGV[2] and was[2] == ARGV[3] then
  local set = {}
  for i, name in ipairs(fields) do set[#set + 1] = name; set[#set + 1] = ARGV[i + 3] end
  redis.call('HSET', KEYS[1], unpack(set))
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return redis.call('HMGET', KEYS[1], unpack(fields))
