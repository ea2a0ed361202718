-- close: take connections of a user out: one, or all of a node.
--
-- KEYS[1] connections  string  entries with spaces between them
-- ARGV[1] what the entries begin with
--
-- Returns how many there were, and the value as it is then; empty: none is left.
local before, after, found = redis.call('GET', KEYS[1]) or '', '', 0
for entry in string.gmatch(before, '%S+') do
  if string.sub(entry, 1, #ARGV[1]) == ARGV[1] then
    found = found + 1
  else
    after = after == '' and entry or after .. ' ' .. entry
  end
end
if found > 0 then
  if after == '' then
    redis.call('DEL', KEYS[1])
  else
    redis.call('SET', KEYS[1], after, 'KEEPTTL')
  end
end
return {found, after}
