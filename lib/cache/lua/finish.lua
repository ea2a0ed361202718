-- finish: end a change.
--
-- KEYS[1] slot   string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] token  of the change
-- ARGV[2] value  after the change, or ''
-- ARGV[3] life   of the value, ms
--
-- Returns 2 if the value is stored. Returns 1 if it is not, because another change is or was concurrent and may be the
-- later one. Returns 0 if the fence was lost, so that an old value may have been stored meanwhile: that value is
-- removed.
local v = redis.call('GET', KEYS[1])
if not v or string.sub(v, 1, 1) ~= 'F' then
  redis.call('DEL', KEYS[1])
  return 0
end
local others = ''
for i = 3, #v, 21 do
  if string.sub(v, i, i + 7) ~= ARGV[1] then others = others .. string.sub(v, i, i + 20) end
end
local ours = #others < #v - 2
if others ~= '' then
  redis.call('SET', KEYS[1], 'Fs' .. others, 'KEEPTTL')
elseif ARGV[2] ~= '' and string.sub(v, 2, 2) == '0' then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 2
else
  redis.call('DEL', KEYS[1])
end
return ours and 1 or 0
