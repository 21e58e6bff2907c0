-- lease_held: who holds a slot of a resource now.
-- KEYS[1]  prefix of the resource
-- ARGV     now_ms
-- Returns  for each lease: { holder, token, expires_at_ms, rank, cost }, the first to expire first
-- Atomic   one moment; changes nothing. What was used up without a slot is left out.

local leases = {}
local from = '(' .. whole(now_ms(ARGV[1]))
local flat = redis.call('ZRANGEBYSCORE', PREFIX .. 'expiries', from, '+inf', 'WITHSCORES')
for i = 1, #flat, 2 do
  local kept = redis.call('HGET', PREFIX .. 'holds', flat[i])
  local rank, slots, cost = string.match(kept, '^(%d+) (%d+) (%d+)$')
  if slots ~= '0' then
    local token = tonumber(redis.call('HGET', PREFIX .. 'tokens', flat[i]))
    leases[#leases + 1] = {
      flat[i], token, tonumber(flat[i + 1]), tonumber(rank), tonumber(cost),
    }
  end
end
return leases
