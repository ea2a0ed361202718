-- Tells one content of a key from another.
-- KEYS[1] the key
-- Returns a hash of what it holds, "" when there is no such key.
local dump = redis.call('DUMP', KEYS[1])
return dump and redis.sha1hex(dump) or ''
