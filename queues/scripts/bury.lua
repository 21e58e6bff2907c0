-- bury: claims that cannot succeed are set aside; a successor becomes ready.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, then for each claim: key, token
-- Returns  for each claim: 1, or 0 when the token no longer holds the item (nothing changes)
-- Atomic   over the whole batch. A second death under one key joins the first. What was cancelled
--          leaves instead.
-- Why      causes are buried, not keys: one bad cause must not block a key for ever, and the relay
--          must not revive it by sending it again. So a new cause under its key is a new item: a
--          key can be live and dead at once. Nothing is trimmed, because a trimmed cause would be
--          sent again as new. Why it died is on the record (queues/0060).

local now, results = now_ms(ARGV[1]), {}

local function bury(key, record)
  local successor = take_successor(record)
  local before = take_dead(key)
  if before then
    merge(before, record)
    record = before
  end
  record.state, record.token, record.begun = 'dead', nil, nil
  write(dead_key(key), record)
  redis.call('ZADD', fixed_key('dead'), now, key)
  redis.call('DEL', item_key(key))
  if successor then let_wait(key, successor) end
end

for i = 2, #ARGV, 2 do
  local key = ARGV[i]
  local record = holds(key, ARGV[i + 1]) and read(item_key(key))
  if record then
    redis.call('ZREM', fixed_key('in-flight'), key)
    if record.cancelled then finish(key, record) else bury(key, record) end
  end
  results[#results + 1] = record and 1 or 0
end
wake()
return results
