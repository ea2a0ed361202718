-- page: the next members of a sorted set, from high scores to low ones, and
-- members of one score from the last to the first.
--
-- KEYS[1] collection  zset, with marks: see collection.lua
-- ARGV[1] era         of the servers, 8 bytes
-- ARGV[2] count       how many, at most
-- ARGV[3] score       of the last member before, or '' to begin
-- ARGV[4] member      that was the last before; it need not be there any more
--
-- Returns members and scores by turns, or nil when the collection is not loaded.
local c = collection(KEYS[1], 'zset')
if not c.has('V' .. ARGV[1]) then return false end
local function below(a, b) -- byte by byte; Lua's own < goes by the locale
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
local from = 0
if ARGV[3] ~= '' then
  -- Members of that score have these ranks; the first that is below is next.
  from = redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[3], '+inf')
  local to = redis.call('ZCOUNT', KEYS[1], ARGV[3], '+inf')
  while from < to do
    local middle = math.floor((from + to) / 2)
    if below(redis.call('ZREVRANGE', KEYS[1], middle, middle)[1], ARGV[4]) then to = middle else from = middle + 1 end
  end
end
local last = c.members() - 1 -- behind it are the marks, whose score is below all
if from > last then return {} end
return redis.call('ZREVRANGE', KEYS[1], from, math.min(from + tonumber(ARGV[2]) - 1, last), 'WITHSCORES')
