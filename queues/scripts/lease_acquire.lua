-- lease_acquire: a holder takes one of a resource's slots, if one is free.
-- KEYS[1]  prefix of the resource
-- ARGV     now_ms, slots, holder, ttl_ms
-- Returns  { fencing token, expires_at_ms }, or an empty list when every slot is taken
-- Atomic   all of it. Expired holders leave first. A holder that asks again keeps its slot and
--          gets a new token, which ends the old one.

local now, holder = now_ms(ARGV[1]), ARGV[3]
local expiries, tokens = PREFIX .. 'expiries', PREFIX .. 'tokens'
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', expiries, '-inf', now)) do
  redis.call('ZREM', expiries, gone)
  redis.call('HDEL', tokens, gone)
end
local again = redis.call('ZSCORE', expiries, holder)
if not again and redis.call('ZCARD', expiries) >= tonumber(ARGV[2]) then return {} end
local token, expires = redis.call('INCR', PREFIX .. 'fence'), now + tonumber(ARGV[4])
redis.call('ZADD', expiries, expires, holder)
redis.call('HSET', tokens, holder, token)
return { token, expires }
