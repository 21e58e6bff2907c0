-- lease_acquire: a holder takes a slot and some cost of a resource, if as much is left for its rank.
-- KEYS[1]  prefix of the resource
-- ARGV     now_ms, holder, ttl_ms, rank, cost,
--          then for each rank: the most slots, the most cost of it and those below ('' is no limit)
-- Returns  { fencing token, expires_at_ms }, or an empty list when not enough is left
-- Atomic   all of it. Expired holders leave first. A holder that asks again is judged as if it held
--          nothing: granted, it gets a new token, which ends the old one; refused, it keeps what it
--          had. Who is refused waits for ttl_ms.

local now, holder, rank, cost = now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local expires = now + tonumber(ARGV[3])
forget_expired(now)
for other = 0, LAST_CLASS do redis.call('ZREM', waiting_key(other), holder) end

local slots_held, cost_held = held(holder)
local slots, costs = 1, cost
for class = 0, LAST_CLASS do
  slots, costs = slots + slots_held[class], costs + cost_held[class]
  local most_slots, most_cost = tonumber(ARGV[6 + 2 * class]), tonumber(ARGV[7 + 2 * class])
  local over = (most_slots and slots > most_slots) or (most_cost and costs > most_cost)
  if class >= rank and over then
    redis.call('ZADD', waiting_key(rank), whole(expires), holder)
    return {}
  end
end
return { hold(holder, rank, 1, whole(cost), expires), expires }
