-- renew: renew a node's lease. Where it is there that is a PEXPIRE, which a Redis that is full does not refuse as it does a SET.
--
-- KEYS[1] lease  string  boot id
-- ARGV[1] boot   this node's boot id
-- ARGV[2] life   milliseconds
--
-- Returns the boot id that was there; nothing where there was none.
local before = redis.call('GET', KEYS[1])
if before == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return before
