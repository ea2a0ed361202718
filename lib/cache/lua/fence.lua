-- fence: forbid storing a value until the change is finished.
--
-- KEYS[1] slot   string  V value, L lease and perhaps a kept value, F fence
-- ARGV[1] token  of the change, 8 bytes, never used before
-- ARGV[2] now    Unix ms, of the servers' clock; 0 if it is not known
-- ARGV[3] until  Unix ms, 13 digits: when the change ends at the latest
-- ARGV[4] life   ms until then
--
-- Returns 1. Concurrent changes share the fence, which then records that. A change that was never finished leaves the
-- fence after its until: otherwise a key that is changed all the time would stay fenced forever after one crash.
local v = redis.call('GET', KEYS[1])
local open, others, life = 'F0', '', tonumber(ARGV[4])
if v and string.sub(v, 1, 1) == 'F' then
  open = 'Fs'
  for i = 3, #v, 21 do
    if tonumber(string.sub(v, i + 8, i + 20)) > tonumber(ARGV[2]) then
      others = others .. string.sub(v, i, i + 20)
    end
  end
  if others ~= '' then life = math.max(life, redis.call('PTTL', KEYS[1])) end
end
redis.call('SET', KEYS[1], open .. others .. ARGV[1] .. ARGV[3], 'PX', life)
return 1
