-- alive: the workers whose last beat has not expired, and those whose beats ended without a
--        good-bye, which are remembered for a while.
-- KEYS[1]  prefix of the fleet
-- ARGV     now_ms
-- Returns  { alive, gone }: for each worker { id, seen_at_ms, record }, as many as fit into one
--          reply; of those that are gone the newest, the last of all at the end
-- Atomic   all of it.

local WORKERS_MAX, GONE_MAX, GONE_KEPT_MS = 10000, 100, 86400000
local workers, gone = {}, {}
local now = now_ms(ARGV[1])
local expiries = fixed_key('expiries')
for name, count in pairs({ expiries = 'ZCARD', seen = 'HLEN', beats = 'HLEN' }) do
  if redis.call(count, fixed_key(name)) > WORKERS_MAX then drop('heartbeat', fixed_key(name)) end
end
local function forget(id)
  redis.call('ZREM', expiries, id)
  redis.call('HDEL', fixed_key('seen'), id)
  redis.call('HDEL', fixed_key('beats'), id)
end
local function forget_all(ids) for _, id in ipairs(ids) do forget(id) end end
forget_all(redis.call('ZRANGEBYSCORE', expiries, '-inf', now - GONE_KEPT_MS))
local beyond = redis.call('ZCOUNT', expiries, '-inf', now) - GONE_MAX
if beyond > 0 then forget_all(redis.call('ZRANGE', expiries, 0, beyond - 1)) end
-- A record without an expiry would stay for ever.
for _, hash in ipairs({ 'seen', 'beats' }) do
  if redis.call('HLEN', fixed_key(hash)) ~= redis.call('ZCARD', expiries) then
    for _, id in ipairs(redis.call('HKEYS', fixed_key(hash))) do
      if not redis.call('ZSCORE', expiries, id) then redis.call('HDEL', fixed_key(hash), id) end
    end
  end
end
local flat = redis.call('ZRANGE', expiries, 0, -1, 'WITHSCORES')
for id, ends in each_pair(flat) do
  local seen = number(short_field(fixed_key('seen'), id, 15))
  local record = named(id) and short_field(fixed_key('beats'), id, VALUE_BYTES_MAX)
  if seen and record and tonumber(ends) <= now + TIME_MS_MAX then
    reply_bytes = reply_bytes + #record
    if is_full() then break end
    local rows = tonumber(ends) <= now and gone or workers
    rows[#rows + 1] = { id, seen, record }
  else
    drop('heartbeat')
    forget(id)
  end
end
return { workers, gone }
