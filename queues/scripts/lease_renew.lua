-- lease_renew: a lease that has not expired lasts longer, counted from now.
-- KEYS[1]  prefix of the resource
-- ARGV     now_ms, holder, token, ttl_ms
-- Returns  1, or 0 when the lease has expired or another token took its place
-- Atomic   all of it.

local now, holder = now_ms(ARGV[1]), ARGV[2]
local expires = tonumber(redis.call('ZSCORE', fixed_key('expiries'), holder) or nil)
if redis.call('HGET', fixed_key('tokens'), holder) ~= ARGV[3] then return 0 end
if not expires or expires <= now then return 0 end
redis.call('ZADD', fixed_key('expiries'), now + tonumber(ARGV[4]), holder)
return 1
