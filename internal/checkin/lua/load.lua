-- load: merge a record computed from SQL into the one at hand and return both
-- in one. Days are joined by OR and numbers by maximum, so that a load is safe
-- beside check-ins and safe to repeat.
--
-- KEYS[1] user:sign:{uid}:{year}  string  100 bytes, see checkin.Record
-- ARGV[1] the record from SQL, 100 bytes
-- ARGV[2] the key's life in milliseconds
--
-- Returns the merged record.
local new, old = ARGV[1], redis.call('GET', KEYS[1])
if old and old ~= new then
  old = old .. string.rep('\0', #new - #old)
  local out = {}
  for i = 1, #new do
    local a, b = string.byte(new, i), string.byte(old, i)
    if a ~= b and (i <= 2 or i > 8) then -- version, flags and days: OR
      local sum, bit = 0, 1
      for _ = 1, 8 do
        if a % 2 == 1 or b % 2 == 1 then sum = sum + bit end
        a, b, bit = math.floor(a / 2), math.floor(b / 2), bit * 2
      end
      a = sum
    end
    out[i] = string.char(a)
  end
  for i = 3, 7, 2 do -- numbers of two bytes: maximum
    local a1, a2 = string.byte(new, i, i + 1)
    local b1, b2 = string.byte(old, i, i + 1)
    if b1 * 256 + b2 > a1 * 256 + a2 then out[i], out[i + 1] = string.char(b1), string.char(b2) end
  end
  new = table.concat(out)
end
redis.call('SET', KEYS[1], new, 'PX', ARGV[2])
return new
