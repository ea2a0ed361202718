-- around: a member and its neighbours, after the expired entries are removed.
--
-- KEYS[1] scores  zset    member → score
-- KEYS[2] loaded  string  '1' and a token once loaded
-- KEYS[3] deaths  zset    member → Unix ms; absent if entries never expire
-- ARGV[1] now     Unix ms
-- ARGV[2] chunk   maximum number of expired entries to remove
-- ARGV[3] member
-- ARGV[4] k       number of neighbours on either side
--
-- Returns {2, {rank from 0 of the first, member, score, …}} best first, or {2, {}} if the member is not on the board.
-- Returns {1} if more expired entries may be due: call again. Returns {0} if the board is not loaded.
if string.sub(redis.call('GET', KEYS[2]) or '', 1, 1) ~= '1' then return {0} end

local dead = KEYS[3] and redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2]) or {}
if #dead > 0 then
  redis.call('ZREM', KEYS[1], unpack(dead))
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, #dead - 1)
end
if #dead == tonumber(ARGV[2]) then return {1} end
local rank = redis.call('ZREVRANK', KEYS[1], ARGV[3])
if not rank then return {2, {}} end
local first = math.max(rank - ARGV[4], 0)
local near = redis.call('ZREVRANGE', KEYS[1], first, rank + ARGV[4], 'WITHSCORES')
table.insert(near, 1, first)
return {2, near}
