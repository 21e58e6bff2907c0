-- bury: claims that cannot succeed go to the dead letter box; a successor becomes ready.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, then for each claim: key, token, error signature
-- Returns  for each claim: 1, or 0 when the token no longer holds the item (nothing changes)
-- Atomic   over the whole batch. A second death under one key joins the first: causes of both,
--          newest payload and signature. What was cancelled leaves instead.
-- Why      the box holds causes, not keys: one bad cause must not block a key for ever, and the
--          relay must not revive it by sending it again. So a dead cause stays dead until it is
--          requeued, and a new cause under its key is a new item: a key can be live and dead at
--          once. The box is not trimmed, because a trimmed cause would be sent again as new.

local now, results = now_ms(ARGV[1]), {}

local function bury(key, record, signature)
  local successor = take_successor(record)
  local before = take_dead(key)
  if before then
    merge(before, record)
    before.payload, before.attempt = record.payload, record.attempt
    record = before
  end
  record.state, record.token, record.signature, record.died = 'dead', nil, signature, now
  record.stamp, record.ends, record.begun = nil, nil, nil
  write(dead_key(key), record)
  count_signature(signature, 1)
  expect_type('dead-of:' .. signature, 'zset')
  redis.call('ZADD', PREFIX .. 'dead-of:' .. signature, now, key)
  redis.call('ZADD', PREFIX .. 'dead', now, key)
  redis.call('DEL', item_key(key))
  if successor then make_ready(key, successor) end
end

for i = 2, #ARGV, 3 do
  local key = ARGV[i]
  local record = holds(key, ARGV[i + 1]) and read(item_key(key))
  if record then
    redis.call('ZREM', PREFIX .. 'in-flight', key)
    if record.cancelled then finish(key, record) else bury(key, record, ARGV[i + 2]) end
  end
  results[#results + 1] = record and 1 or 0
end
wake()
return results
