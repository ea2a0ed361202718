-- merge: write entries unless the stored one is newer.
--
-- KEYS[1] scores  zset    member → value · 2^32 + (2^32 - 1 - seconds since 2020)
-- KEYS[2] loaded  string  '0' while loading, '1' once loaded; then the load's token
-- KEYS[3] deaths  zset    member → Unix ms; absent if entries never expire
-- ARGV[1] token   of the load, or '' for entries that restart
-- ARGV[2] …       member, score, death; again for each entry, no member twice
--
-- Returns the number of written entries, or -1 if the token no longer exists.
local token = ARGV[1]
if token ~= '' and string.sub(redis.call('GET', KEYS[2]) or '', 2) ~= token then return -1 end

local members = {}
for i = 2, #ARGV, 3 do members[#members + 1] = ARGV[i] end
local stored = redis.call('ZMSCORE', KEYS[1], unpack(members))

local scores, exact, longer = {}, {}, {}
for i, member in ipairs(members) do
  local old, score, death = tonumber(stored[i] or -1), ARGV[3 * i], ARGV[3 * i + 1]
  local new = tonumber(score)
  -- The low 32 bits fall as time passes. In the same second a restart wins; in a load, which may be older than the
  -- traffic, the greater value wins.
  local was, is = old % 4294967296, new % 4294967296
  local into = exact
  if token ~= '' and new == old then into = longer end
  if old < 0 or is < was or is == was and (token == '' or new >= old) then
    scores[#scores + 1], scores[#scores + 2] = score, member
    into[#into + 1], into[#into + 2] = death, member
  end
end

if #scores > 0 then redis.call('ZADD', KEYS[1], unpack(scores)) end
if KEYS[3] and #exact > 0 then redis.call('ZADD', KEYS[3], unpack(exact)) end
if KEYS[3] and #longer > 0 then redis.call('ZADD', KEYS[3], 'GT', unpack(longer)) end
return #scores / 2
