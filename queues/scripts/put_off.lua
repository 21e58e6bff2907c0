-- put_off: claims are given back untried; they wait until they are due.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, reason, then for each claim: key, token, delay_ms
-- Returns  for each claim: 1, or 0 when the token no longer holds the item (nothing changes)
-- Atomic   over the whole batch. The delivery does not count as an attempt.

local now, results = now_ms(ARGV[1]), {}
local delayed = PREFIX .. 'delayed'
local first = tonumber(redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2])
local sooner = false
for i = 3, #ARGV, 3 do
  local key, due = ARGV[i], now + tonumber(ARGV[i + 2])
  local held = holds(key, ARGV[i + 1])
  if held then
    local record = read(item_key(key))
    absorb_successor(record)
    record.state, record.token, record.error = 'delayed', nil, ARGV[2]
    record.attempt = math.max(0, tonumber(record.attempt) - 1)
    write(item_key(key), record)
    redis.call('ZREM', PREFIX .. 'in-flight', key)
    redis.call('ZADD', delayed, due, key)
    sooner = sooner or not first or due < first
  end
  results[#results + 1] = held and 1 or 0
end
if sooner then wake(1) end
return results
