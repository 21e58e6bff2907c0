-- claim: due retries become ready, then the earliest deadlines are handed to one holder.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, limit, visibility_ms, token (must never have been used before)
-- Returns  for each claimed item: { key, attempt, flat record }
-- Atomic   over the whole batch. At most 1000 due retries are moved in one call.

local now, limit, token = now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[4]

local due = redis.call('ZRANGEBYSCORE', PREFIX .. 'delayed', '-inf', now, 'LIMIT', 0, 1000)
for _, key in ipairs(due) do
  local item = item_key(key)
  local seen = redis.call('HMGET', item, 'rank', 'deadline')
  if seen[1] then
    redis.call('HSET', item, 'state', 'ready')
    redis.call('ZADD', ready_key(seen[1]), seen[2], key)
  end
end
if #due > 0 then redis.call('ZREM', PREFIX .. 'delayed', unpack(due)) end

local keys, taken = earliest(limit)
for rank = 0, LAST_RANK do
  if taken[rank] > 0 then
    redis.call('ZREMRANGEBYRANK', ready_key(rank), 0, taken[rank] - 1)
  end
end

local claims, flying = {}, {}
local expires = now + tonumber(ARGV[3])
for _, key in ipairs(keys) do
  local item = item_key(key)
  local record = redis.call('HGETALL', item)
  if #record > 0 then
    redis.call('HSET', item, 'state', 'in_flight', 'token', token)
    claims[#claims + 1] = { key, redis.call('HINCRBY', item, 'attempt', 1), record }
    flying[#flying + 1] = expires
    flying[#flying + 1] = key
  end
end
if #flying > 0 then redis.call('ZADD', PREFIX .. 'in-flight', unpack(flying)) end
return claims
