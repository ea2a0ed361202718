-- command: change a room's register by the rules of package playback.
--
-- KEYS[1] state    hash        see keys.go
-- KEYS[2] holding  sorted set  see buffer.lua; play during a hold deletes it: the room no longer waits for these viewers
-- ARGV[1] generation and
-- ARGV[2] version that the sender saw
-- ARGV[3] play, pause, seek, rate, load, hold or release
-- ARGV[4] the servers' time, Unix ms
-- ARGV[5] position in ms, of seek and load
-- ARGV[6] rate in thousandths, of rate
-- ARGV[7] item, of load
-- ARGV[8] the key's life in milliseconds
-- ARGV[9] the longest position in ms
-- ARGV[10] the ms by which the state's time may be ahead of the servers'
--
-- Returns 1 (done), 0 (the sender saw another register) or -1 (there is no register), and the state in the order g v i
-- p t r s h.
local fields = { 'g', 'v', 'i', 'p', 't', 'r', 's', 'h' }
local s = redis.call('HMGET', KEYS[1], unpack(fields))
if not s[1] then return { -1 } end
local verb, now, made = ARGV[3], tonumber(ARGV[4]), tonumber(s[5])
if made > now + tonumber(ARGV[10]) then made = now end
now = math.max(now, made)
local alone = verb == 'play' and s[8] == '1'
local own = verb == 'hold' or verb == 'release'
if not own and (ARGV[1] ~= s[1] or ARGV[2] ~= s[2]) then return { 0, unpack(s) } end
if verb == 'hold' and s[7] == '1' or verb == 'release' and s[8] == '0' then return { 1, unpack(s) } end
if s[7] == '0' then
  local at = tonumber(s[4]) + math.floor((now - made) * tonumber(s[6]) / 1000)
  s[4] = string.format('%.0f', math.min(tonumber(ARGV[9]), at))
end
s[5], s[2] = string.format('%.0f', now), string.format('%.0f', tonumber(s[2]) + 1)
if verb == 'play' or verb == 'release' then s[7], s[8] = '0', '0'
elseif verb == 'pause' then s[7], s[8] = '1', '0'
elseif verb == 'hold' then s[7], s[8] = '1', '1'
elseif verb == 'seek' then s[4] = ARGV[5]
elseif verb == 'rate' then s[6] = ARGV[6]
elseif verb == 'load' then s[3], s[4], s[7], s[8] = ARGV[7], ARGV[5], ARGV[7] == '' and '1' or '0', '0' end
local set = {}
for i, name in ipairs(fields) do set[#set + 1] = name; set[#set + 1] = s[i] end
redis.call('HSET', KEYS[1], unpack(set))
redis.call('PEXPIRE', KEYS[1], ARGV[8])
if alone then redis.call('DEL', KEYS[2]) end
return { 1, unpack(s) }
