-- Returns a hash of the value of a key, "" if the key does not exist.
-- KEYS[1] the key
local dump = redis.call('DUMP', KEYS[1])
return dump and redis.sha1hex(dump) or ''
