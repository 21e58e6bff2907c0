-- lease_release: what a lease holds is free again.
-- KEYS[1]  prefix of the resource
-- ARGV     holder, token
-- Returns  1, or 0 when another token took its place or it was gone
-- Atomic   all of it.

if redis.call('HGET', fixed_key('tokens'), ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', fixed_key('tokens'), ARGV[1])
redis.call('HDEL', fixed_key('holds'), ARGV[1])
redis.call('ZREM', fixed_key('expiries'), ARGV[1])
return 1
