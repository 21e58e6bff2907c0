-- claim: due retries wait again, then what is served next is handed to one holder.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, limit, visibility_ms, token (must never have been used before), the least
--          urgent rank to take
-- Returns  for each claimed item: key, then its record as it was before: packed, or { attempt, flat
--          record }
-- Atomic   over the whole batch. At most 1000 due retries are moved in one call. What is paused
--          stays where it is. An item of which a claim has expired is claimed alone: the batch ends
--          before it, or holds nothing else. A batch also ends before a reply would be too large.

local now, limit, token, least = now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[4], tonumber(ARGV[5])

local due = redis.call('ZRANGEBYSCORE', fixed_key('delayed'), '-inf', now, 'LIMIT', 0, 1000)
for _, key in ipairs(due) do
  local rank, deadline, stamp = urgency_of(key)
  if rank then
    redis.call('HSET', item_key(key), 'state', stamp and 'suspended' or 'ready')
    take_place(key, rank, deadline, stamp)
  end
end
if #due > 0 then redis.call('ZREM', fixed_key('delayed'), unpack(due)) end

-- A record as it lies here, packed or flat, whether a claim of it has expired, and the attempts of
-- what is not packed; nil where there is none. The client judges the rest, and gives up what is
-- unsound.
local function claimed_of(hash)
  local bytes = try('GETRANGE', hash, 0, PACKED_BYTES_MAX)
  if bytes == '' then return nil end
  if bytes then
    reply_bytes = reply_bytes + #bytes
    return bytes, false
  end
  local flat, attempt, is_suspect, bytes = whole_hash(hash, RECORD_FIELDS_MAX, RECORD_BYTES_MAX), nil, false, 0
  for field, value in each_pair(flat or {}) do
    bytes = bytes + #field + #value
    if field == 'attempt' then attempt = number(value) end
    if field == 'ends' then is_suspect = true end
  end
  if attempt then
    reply_bytes = reply_bytes + bytes
    return flat, is_suspect, attempt
  end
  if not flat or #flat > 0 then drop('item', hash) end
end

local paused = paused_ranks()
local keys, given, suspended = service_order(limit, least, paused)
local records, attempts, taken, claimed = {}, {}, 0, 0
for i, key in ipairs(keys) do
  local record, is_suspect, attempt = claimed_of(item_key(key))
  if claimed > 0 and (is_suspect or is_full()) then break end
  taken, records[i], attempts[i] = i, record, attempt
  if record then claimed = claimed + 1 end
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

local claims, flying, held = {}, {}, {}
local expires = now + tonumber(ARGV[3])
for i, key in ipairs(keys) do
  local record, attempt = records[i], attempts[i]
  if attempt then
    attempt = attempt + 1
    redis.call('HSET', item_key(key), 'state', 'in_flight', 'token', token, 'attempt', attempt)
    record = { attempt, record }
  elseif record then
    held[#held + 1], held[#held + 2] = key, token
  end
  if record then
    claims[#claims + 1], claims[#claims + 2] = key, record
    flying[#flying + 1], flying[#flying + 2] = expires, key
  end
end
if #flying > 0 then redis.call('ZADD', fixed_key('in-flight'), unpack(flying)) end
if #held > 0 then redis.call('HSET', fixed_key('claims'), unpack(held)) end
return claims
