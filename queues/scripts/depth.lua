-- depth: how much is in which state, how old the next of each priority is, and what is paused.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms
-- Returns  { delayed, in flight, dead, requests that are not due yet as the relay said last, 1 if
--          the queue is paused, then for each rank: ready, suspended, age in ms of what it serves
--          next (-1 when it has nothing), 1 if paused }
-- Atomic   one moment; changes nothing.

local function enqueued_of(item)
  local seen = try('HGET', item, 'enqueued')
  if seen == nil then seen = string.match(try('GETRANGE', item, 0, 63) or '', '^1 %d %d+ (%d+) ') end
  return seen
end

local now = now_ms(ARGV[1])
local answer = {
  redis.call('ZCARD', fixed_key('delayed')),
  redis.call('ZCARD', fixed_key('in-flight')),
  redis.call('ZCARD', fixed_key('dead')),
  math.max(0, number(try('GETRANGE', PREFIX .. 'not-due', 0, 15)) or 0),
  redis.call('HEXISTS', fixed_key('paused'), 'all'),
}
for rank = 0, LAST_RANK do
  local first = redis.call('ZRANGE', suspended_key(rank), 0, 0)[1]
    or redis.call('ZRANGE', ready_key(rank), 0, 0)[1]
  local since = first and number(enqueued_of(item_key(first)))
  answer[#answer + 1] = redis.call('ZCARD', ready_key(rank))
  answer[#answer + 1] = redis.call('ZCARD', suspended_key(rank))
  answer[#answer + 1] = since and math.max(0, now - since) or -1
  answer[#answer + 1] = redis.call('HEXISTS', fixed_key('paused'), tostring(rank))
end
return answer
