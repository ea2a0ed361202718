-- renew: renews the lease of a node. An existing lease gets a PEXPIRE, because a full Redis refuses a SET but not a
-- PEXPIRE.
--
-- KEYS[1] lease  string  boot id
-- ARGV[1] boot   this node's boot id
-- ARGV[2] life   milliseconds
--
-- Returns the previous boot id, or nil.
local before = redis.call('GET', KEYS[1])
if before == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return before
