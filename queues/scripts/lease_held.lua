-- lease_held: who holds a slot of a resource now.
-- KEYS[1]  prefix of the resource
-- ARGV     now_ms
-- Returns  for each lease: { holder, token, expires_at_ms, rank, cost }, the first to expire first
-- Atomic   one moment. What was used up without a slot is left out.

local leases = {}
local now = now_ms(ARGV[1])
local flat = redis.call('ZRANGEBYSCORE', fixed_key('expiries'), '(' .. whole(now),
  whole(now + TIME_MS_MAX), 'WITHSCORES')
for i = 1, #flat, 2 do
  local rank, slots, cost = hold_of(flat[i], short_field(fixed_key('holds'), flat[i], 32))
  local token = rank and number(short_field(fixed_key('tokens'), flat[i], 17))
  if token and slots ~= 0 then
    leases[#leases + 1] = { flat[i], token, tonumber(flat[i + 1]), rank, cost }
  end
end
return leases
