-- page: the next members of a sorted set, by descending score, and by descending member within a score.
--
-- KEYS[1] collection  zset, with marks: see collection.lua
-- ARGV[1] era         of the servers, 8 bytes
-- ARGV[2] count       maximum number of members
-- ARGV[3] score       of the previous member, or '' to begin
-- ARGV[4] member      the previous member; it may no longer exist
--
-- Returns members and scores in turn, or nil if the collection is not loaded.
local c = collection(KEYS[1], 'zset')
if not c.has('V' .. ARGV[1]) then return false end
local function below(a, b) -- byte by byte, because Lua's own < uses the locale
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
local from = 0
if ARGV[3] ~= '' then
  -- Members with that score have these ranks; the first one below is next.
  from = redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[3], '+inf')
  local to = redis.call('ZCOUNT', KEYS[1], ARGV[3], '+inf')
  while from < to do
    local middle = math.floor((from + to) / 2)
    if below(redis.call('ZREVRANGE', KEYS[1], middle, middle)[1], ARGV[4]) then to = middle else from = middle + 1 end
  end
end
local last = c.members() - 1 -- the marks follow it, because their score is the lowest
if from > last then return {} end
return redis.call('ZREVRANGE', KEYS[1], from, math.min(from + tonumber(ARGV[2]) - 1, last), 'WITHSCORES')
