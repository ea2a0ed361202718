-- collection: helpers for cached hashes, sets and sorted sets. The other scripts begin with it.
--
-- Members that begin with a zero byte are marks, not the caller's members:
--
--   V era    loaded, under that era of the servers
--   L        a load is under way, for the first time or, with V, again; T and a
--            token identify it
--   F1 … Fn  n changes are under way; T and a token identify each
--   S        there was more than one change at once
local commands = {
  hash = {'HEXISTS', 'HSET', 'HDEL', 'HLEN'},
  set = {'SISMEMBER', 'SADD', 'SREM', 'SCARD'},
  zset = {'ZSCORE', 'ZADD', 'ZREM', 'ZCARD'},
}
local function collection(key, kind)
  local is, add, rem, len = unpack(commands[kind])
  local c = {add = add, rem = rem}
  function c.has(mark)
    local r = redis.call(is, key, '\0' .. mark)
    return r and r ~= 0
  end
  function c.mark(mark)
    if kind == 'hash' then redis.call(add, key, '\0' .. mark, '')
    elseif kind == 'zset' then redis.call(add, key, '-inf', '\0' .. mark)
    else redis.call(add, key, '\0' .. mark) end
  end
  function c.unmark(mark) redis.call(rem, key, '\0' .. mark) end
  function c.size() return redis.call(len, key) end
  function c.members() return c.size() - (c.has('L') and 3 or 1) end -- while loaded
  function c.changes()
    local n = 0
    while c.has('F' .. n + 1) do n = n + 1 end
    return n
  end
  return c
end
