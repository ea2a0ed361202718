-- Changes the phase. The new phase is settling until every node acts on it.
-- KEYS[1] the state
-- ARGV[1] the expected current phase
-- ARGV[2] the new phase
-- Returns 1; 0 if the current phase is another one; -1 if the phase may not become
-- switched, because no comparison found the sides equal.
local is = redis.call('HGET', KEYS[1], 'phase') or 'old'
if is ~= ARGV[1] then
  return 0
end
if ARGV[2] == 'switched' and redis.call('HGET', KEYS[1], 'equal') ~= '1' then
  return -1
end
redis.call('HSET', KEYS[1], 'phase', ARGV[2], 'settling', ARGV[2])
return 1
