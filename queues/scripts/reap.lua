-- reap: claims whose visibility has ended return to ready, their successors merged into them.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, limit
-- Returns  how many claims ended
-- Atomic   over one call. A claim ends at its deadline, not after it. What was
--          cancelled leaves instead.

local flying = PREFIX .. 'in-flight'
local ended = redis.call('ZRANGEBYSCORE', flying, '-inf', now_ms(ARGV[1]), 'LIMIT', 0, ARGV[2])
for _, key in ipairs(ended) do
  local record = read(item_key(key))
  redis.call('ZREM', flying, key)
  if record and record.cancelled then
    finish(key, record)
  elseif record then
    absorb_successor(record)
    make_ready(key, record)
  end
end
wake()
return #ended
