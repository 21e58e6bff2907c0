-- bury: claims that cannot succeed go to the dead letter box; a successor becomes ready.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, then for each claim: key, token, error signature
-- Returns  for each claim: 1, or 0 when the token no longer holds the item (nothing changes)
-- Atomic   over the whole batch. A second death under one key joins the first: causes of both,
--          newest payload and signature.

local now, results, fresh = now_ms(ARGV[1]), {}, 0
local signatures = PREFIX .. 'dead-signatures'
local function count_signature(signature, by)
  if redis.call('HINCRBY', signatures, signature, by) == 0 then
    redis.call('HDEL', signatures, signature)
  end
end
for i = 2, #ARGV, 3 do
  local key, signature = ARGV[i], ARGV[i + 2]
  local held = holds(key, ARGV[i + 1])
  if held then
    local record = read(item_key(key))
    local successor = take_successor(record)
    local before = read(dead_key(key))
    if before then
      merge(before, record)
      before.payload, before.attempt = record.payload, record.attempt
      count_signature(before.signature, -1)
      record = before
    end
    record.state, record.token, record.signature, record.died = 'dead', nil, signature, now
    write(dead_key(key), record)
    count_signature(signature, 1)
    redis.call('ZADD', PREFIX .. 'dead', now, key)
    redis.call('ZREM', PREFIX .. 'in-flight', key)
    redis.call('DEL', item_key(key))
    if successor then
      make_ready(key, successor)
      fresh = fresh + 1
    end
  end
  results[#results + 1] = held and 1 or 0
end
wake(fresh)
return results
