-- swap: compare-and-set one field of a hash; an empty new value removes it, unless it is the last one.
--
-- KEYS[1] marks  hash  node → Unix ms up to which its commits are applied, and when that was written; a sign before it says more (projection.go)
-- ARGV[1] node
-- ARGV[2] the value expected, '' for none
-- ARGV[3] the value to set, '' to remove the field
--
-- Returns 1, or 0 if the field has another value. The last mark stays: a Redis that is set back to an
-- earlier state then has a mark from which rows may be missing.
local held = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if held ~= ARGV[2] then return 0 end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
elseif redis.call('HLEN', KEYS[1]) > 1 then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return 1
