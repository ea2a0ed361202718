-- report: store the info and stats of a stream, unless there is a newer publisher.
--
-- KEYS[1] fence        counter     the newest publisher's token
-- KEYS[2] info         JSON
-- KEYS[3] stats        hash
-- KEYS[4] subscribers  sorted set  viewers by the Unix ms until when they count
-- ARGV[1] the publisher's token
-- ARGV[2] the info
-- ARGV[3] the info's life in milliseconds
-- ARGV[4] the stats' life in milliseconds
-- ARGV[5] the servers' time, Unix ms
-- ARGV[6] bitrate
-- ARGV[7] packets
-- ARGV[8] bytes
-- ARGV[9] lost
--
-- Returns the number of viewers, or -1 without a change if the token is not the newest.
local newest = redis.call('GET', KEYS[1])
if newest and newest ~= ARGV[1] then
  return -1
end
local viewers = redis.call('ZCOUNT', KEYS[4], '(' .. ARGV[5], '+inf')
redis.call('PEXPIRE', KEYS[2], ARGV[3]) -- a full Redis refuses only the first write of a script, and never refuses PEXPIRE
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('HSET', KEYS[3], 'viewers', viewers, 'bitrate', ARGV[6], 'packets', ARGV[7], 'bytes', ARGV[8], 'lost', ARGV[9])
redis.call('PEXPIRE', KEYS[3], ARGV[4])
return viewers
