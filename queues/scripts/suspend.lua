-- suspend: claims that found no capacity wait in the order of their suspension (§14.3).
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, then for each claim: key, token
-- Returns  for each claim: 1, or 0 when the token no longer holds the item (nothing changes)
-- Atomic   over the whole batch. The delivery does not count as an attempt; a successor is merged
--          into its item. Stamps are ms and never repeat, so that they are an order; an item keeps
--          its first until it is done, buried or lost, so that a worker that suspends it again
--          gives it its old place back. Nobody is woken: there is no capacity. What was cancelled
--          leaves instead.

local now, results = now_ms(ARGV[1]), {}
local stamp = math.max(now - 1, last_stamp_given())
for i = 2, #ARGV, 2 do
  local key = ARGV[i]
  local record = holds(key, ARGV[i + 1]) and read(item_key(key))
  if record then
    redis.call('ZREM', fixed_key('in-flight'), key)
    if record.cancelled then
      finish(key, record)
    else
      record.attempt = tostring(tonumber(record.attempt) - 1)
      absorb_successor(record)
      if not record.stamp then
        stamp = stamp + 1
        record.stamp = string.format('%.0f', stamp)
      end
      record.state, record.token, record.begun = 'suspended', nil, nil
      write(item_key(key), record)
      redis.call('ZADD', suspended_key(record.rank), record.stamp, key)
    end
  end
  results[#results + 1] = record and 1 or 0
end
raise_stamp(stamp)
wake()
return results
