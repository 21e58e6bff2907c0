-- retry: claims that failed, or were put off, wait until they are due; a successor is merged in,
--        but for that of what is worn out.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, error, 1 if the delivery was an attempt or else 0, then for each claim: key,
--          token, delay_ms
-- Returns  for each claim: 1, or 0 when the token no longer holds the item (nothing changes)
-- Atomic   over the whole batch. The attempt was counted when the item was claimed, and is taken
--          back here if it was none. What was cancelled leaves instead.

local now, results = now_ms(ARGV[1]), {}
local delayed = fixed_key('delayed')
local first = tonumber(redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2])
for i = 4, #ARGV, 3 do
  local key, due = ARGV[i], now + tonumber(ARGV[i + 2])
  local record = holds(key, ARGV[i + 1]) and read(item_key(key))
  if record then
    redis.call('ZREM', fixed_key('in-flight'), key)
    if record.cancelled then
      finish(key, record)
    else
      record.state, record.token, record.error = 'delayed', nil, ARGV[2]
      record.begun = nil
      record.attempt = tostring(tonumber(record.attempt) - (1 - tonumber(ARGV[3])))
      absorb_successor(record)
      write(item_key(key), record)
      redis.call('ZADD', delayed, due, key)
      -- A sleeper that knew of a later due time, or of none, has to set its alarm again.
      if not first or due < first then count_fresh(record.rank) end
    end
  end
  results[#results + 1] = record and 1 or 0
end
wake()
return results
