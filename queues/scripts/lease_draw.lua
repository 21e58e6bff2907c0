-- lease_draw: what somebody has used up is held for a time, and everything that is held is told.
-- KEYS[1]  prefix of the resource
-- ARGV     now_ms, name, ttl_ms, then for each rank: cost that was used
-- Returns  { ms until the first hold ends (-1 when there is none),
--            then for each rank: slots held, cost held, how many wait }
-- Atomic   all of it. Expired holders leave first. Under a known name the cost replaces what was
--          there, so the same may be sent again. A rank that used nothing changes nothing.

local now, name = now_ms(ARGV[1]), ARGV[2]
forget_expired(now)
for rank = 0, LAST_CLASS do
  if tonumber(ARGV[4 + rank]) > 0 then
    hold(name .. '/' .. rank, rank, 0, ARGV[4 + rank], now + tonumber(ARGV[3]))
  end
end
local first = redis.call('ZRANGE', fixed_key('expiries'), 0, 0, 'WITHSCORES')[2]
local answer = { first and math.max(0, tonumber(first) - now) or -1 }
local slots, cost = held('')
for rank = 0, LAST_CLASS do
  answer[#answer + 1] = slots[rank]
  answer[#answer + 1] = cost[rank]
  answer[#answer + 1] = redis.call('ZCARD', waiting_key(rank))
end
return answer
