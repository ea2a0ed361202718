-- load: merge a record computed from SQL into the stored one and return the
-- result. Days are joined by OR and numbers by maximum, so a load is safe during
-- check-ins and safe to repeat. A record of another version is replaced.
--
-- KEYS[1] user:sign:{uid}:{year}  string  108 bytes, see streak.Record
-- ARGV[1] the record from SQL, 108 bytes
-- ARGV[2] the key's life in milliseconds
--
-- Returns the merged record.
local new, old = ARGV[1], redis.call('GET', KEYS[1])
local version = old and string.byte(old, 1) or 0
if old and old ~= new and (version == 0 or version == string.byte(new, 1)) then
  old = old .. string.rep('\0', #new - #old)
  local out = {}
  for i = 1, #new do
    local a, b = string.byte(new, i), string.byte(old, i)
    if a ~= b and (i <= 2 or i > 16) then -- version, flags and days: OR
      local sum, bit = 0, 1
      for _ = 1, 8 do
        if a % 2 == 1 or b % 2 == 1 then sum = sum + bit end
        a, b, bit = math.floor(a / 2), math.floor(b / 2), bit * 2
      end
      a = sum
    end
    out[i] = string.char(a)
  end
  local first = 3
  for _, last in ipairs({8, 10, 12, 14, 16}) do -- numbers: maximum
    local a, b = 0, 0
    for i = first, last do
      a, b = a * 256 + string.byte(new, i), b * 256 + string.byte(old, i)
    end
    if b > a then
      for i = first, last do out[i] = string.sub(old, i, i) end
    end
    first = last + 1
  end
  new = table.concat(out)
end
redis.call('SET', KEYS[1], new, 'PX', ARGV[2])
return new
