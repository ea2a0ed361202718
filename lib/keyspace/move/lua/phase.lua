-- Goes from one phase to another, which is then settling until every node acts on it.
-- KEYS[1] the state
-- ARGV[1] the phase it must be in
-- ARGV[2] the phase it gets
-- Returns 1; 0 when it is in another; -1 when it may not be switched, because
-- the sides were not found equal.
local is = redis.call('HGET', KEYS[1], 'phase') or 'old'
if is ~= ARGV[1] then
  return 0
end
if ARGV[2] == 'switched' and redis.call('HGET', KEYS[1], 'equal') ~= '1' then
  return -1
end
redis.call('HSET', KEYS[1], 'phase', ARGV[2], 'settling', ARGV[2])
return 1
