-- claim: due retries wait again, then what is served next is handed to one holder.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, limit, visibility_ms, token (must never have been used before), the least
--          urgent rank to take
-- Returns  for each claimed item: { key, attempt, flat record as it was before }
-- Atomic   over the whole batch. At most 1000 due retries are moved in one call. What is paused
--          stays where it is. An item of which a claim has expired is claimed alone: the batch ends
--          before it, or holds nothing else. A batch also ends before a reply would be too large.

local now, limit, token, least = now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[4], tonumber(ARGV[5])

local due = redis.call('ZRANGEBYSCORE', PREFIX .. 'delayed', '-inf', now, 'LIMIT', 0, 1000)
for _, key in ipairs(due) do
  local rank, deadline, stamp = urgency_of(key)
  if rank then
    redis.call('HSET', item_key(key), 'state', stamp and 'suspended' or 'ready')
    take_place(key, rank, deadline, stamp)
  end
end
if #due > 0 then redis.call('ZREM', PREFIX .. 'delayed', unpack(due)) end

local paused = paused_ranks()
local keys, given, suspended = service_order(limit, least, paused)
local records, taken, claimed = {}, 0, 0
for i, key in ipairs(keys) do
  local record, is_suspect = flat_of(item_key(key), 'item')
  if claimed > 0 and (is_suspect or is_full()) then break end
  taken, records[i] = i, record
  if #record > 0 then claimed = claimed + 1 end
  if is_suspect then break end
end
if taken < #keys then keys, given, suspended = service_order(taken, least, paused) end
for rank = 0, least do
  local resumed = math.min(given[rank], suspended[rank])
  if resumed > 0 then
    redis.call('ZREMRANGEBYRANK', suspended_key(rank), 0, resumed - 1)
  end
  if given[rank] > resumed then
    redis.call('ZREMRANGEBYRANK', ready_key(rank), 0, given[rank] - resumed - 1)
  end
end

local claims, flying = {}, {}
local expires = now + tonumber(ARGV[3])
for i, key in ipairs(keys) do
  local item, record = item_key(key), records[i]
  if #record > 0 then
    redis.call('HSET', item, 'state', 'in_flight', 'token', token)
    claims[#claims + 1] = { key, redis.call('HINCRBY', item, 'attempt', 1), record }
    flying[#flying + 1] = expires
    flying[#flying + 1] = key
  end
end
if #flying > 0 then redis.call('ZADD', PREFIX .. 'in-flight', unpack(flying)) end
return claims
