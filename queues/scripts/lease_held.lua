-- lease_held: who holds a resource now.
-- KEYS[1]  prefix of the resource
-- ARGV     now_ms
-- Returns  for each lease: { holder, token, expires_at_ms }, the first to expire first
-- Atomic   one moment; changes nothing.

local leases = {}
local from = '(' .. string.format('%.0f', now_ms(ARGV[1]))
local flat = redis.call('ZRANGEBYSCORE', PREFIX .. 'expiries', from, '+inf', 'WITHSCORES')
for i = 1, #flat, 2 do
  local token = redis.call('HGET', PREFIX .. 'tokens', flat[i])
  leases[#leases + 1] = { flat[i], tonumber(token), tonumber(flat[i + 1]) }
end
return leases
