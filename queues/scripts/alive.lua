-- alive: the workers whose last beat has not expired; the others are forgotten.
-- KEYS[1]  prefix of the fleet
-- ARGV     now_ms
-- Returns  for each worker: { id, seen_at_ms, record }, as many as fit into one reply
-- Atomic   all of it.

local WORKERS_MAX = 10000
local workers = {}
local now = now_ms(ARGV[1])
local expiries = PREFIX .. 'expiries'
for name, count in pairs({ expiries = 'ZCARD', seen = 'HLEN', beats = 'HLEN' }) do
  if redis.call(count, PREFIX .. name) > WORKERS_MAX then drop('heartbeat', PREFIX .. name) end
end
local function forget(id)
  redis.call('ZREM', expiries, id)
  redis.call('HDEL', PREFIX .. 'seen', id)
  redis.call('HDEL', PREFIX .. 'beats', id)
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', expiries, '-inf', now)) do forget(gone) end
-- A record without an expiry would stay for ever.
for _, hash in ipairs({ 'seen', 'beats' }) do
  if redis.call('HLEN', PREFIX .. hash) ~= redis.call('ZCARD', expiries) then
    for _, id in ipairs(redis.call('HKEYS', PREFIX .. hash)) do
      if not redis.call('ZSCORE', expiries, id) then redis.call('HDEL', PREFIX .. hash, id) end
    end
  end
end
local flat = redis.call('ZRANGE', expiries, 0, -1, 'WITHSCORES')
for id, ends in each_pair(flat) do
  local seen = number(short_field(PREFIX .. 'seen', id, 15))
  local record = named(id) and short_field(PREFIX .. 'beats', id, VALUE_BYTES_MAX)
  if seen and record and tonumber(ends) <= now + TIME_MS_MAX then
    reply_bytes = reply_bytes + #record
    if is_full() then break end
    workers[#workers + 1] = { id, seen, record }
  else
    drop('heartbeat')
    forget(id)
  end
end
return workers
