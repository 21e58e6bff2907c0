-- depth: how much waits, flies and is dead.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms
-- Returns  { delayed, in flight, dead, then for each rank: ready, age in ms of its first item
--          (-1 when the rank is empty) }
-- Atomic   one moment; changes nothing.

local now = now_ms(ARGV[1])
local answer = {
  redis.call('ZCARD', PREFIX .. 'delayed'),
  redis.call('ZCARD', PREFIX .. 'in-flight'),
  redis.call('ZCARD', PREFIX .. 'dead'),
}
for rank = 0, LAST_RANK do
  local first = redis.call('ZRANGE', ready_key(rank), 0, 0)[1]
  local since = first and tonumber(redis.call('HGET', item_key(first), 'enqueued') or nil)
  answer[#answer + 1] = redis.call('ZCARD', ready_key(rank))
  answer[#answer + 1] = since and math.max(0, now - since) or -1
end
return answer
