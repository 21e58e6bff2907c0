-- alive: the workers whose last beat has not expired; the others are forgotten.
-- KEYS[1]  prefix of the fleet
-- ARGV     now_ms
-- Returns  for each worker: { seen_at_ms, record }
-- Atomic   all of it.

local workers = {}
local now = now_ms(ARGV[1])
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', PREFIX .. 'expiries', '-inf', now)) do
  redis.call('ZREM', PREFIX .. 'expiries', gone)
  redis.call('HDEL', PREFIX .. 'seen', gone)
  redis.call('HDEL', PREFIX .. 'beats', gone)
end
for _, id in ipairs(redis.call('ZRANGE', PREFIX .. 'expiries', 0, -1)) do
  workers[#workers + 1] = {
    tonumber(redis.call('HGET', PREFIX .. 'seen', id)),
    redis.call('HGET', PREFIX .. 'beats', id),
  }
end
return workers
