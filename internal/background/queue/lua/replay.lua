-- replay: returns dead letters to the queue as new messages.
--
-- KEYS[1] dead    the topic's dead letters
-- KEYS[2] stream
-- ARGV[1] …       ids of dead letters
--
-- Returns the number of replayed messages.
local n = 0
for _, id in ipairs(ARGV) do
  local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
  if entry then
    local f = entry[2]
    redis.call('XADD', KEYS[2], '*', f[1], f[2], f[3], f[4])
    redis.call('XDEL', KEYS[1], id)
    n = n + 1
  end
end
return n
