-- clear: delete the info and stats of a stream, unless there is a newer publisher.
--
-- KEYS[1] fence  counter  the newest publisher's token
-- KEYS[2] info   JSON
-- KEYS[3] stats  hash
-- ARGV[1] the publisher's token
--
-- Returns 1, or 0 if the token is not the newest.
local newest = redis.call('GET', KEYS[1])
if newest and newest ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[2], KEYS[3])
return 1
