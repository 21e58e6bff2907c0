-- resume: the queue, or one priority, is claimed again.
-- KEYS[1]  prefix of the queue
-- ARGV     'all' or a rank
-- Returns  1 if it was paused, else 0
-- Atomic   all of it. Sleepers are told of what waited meanwhile. A priority and the queue are
--          paused and resumed apart: what is paused twice is resumed twice.

local resumed = redis.call('HDEL', fixed_key('paused'), ARGV[1])
-- A sleeper may not know of a retry either that was put off meanwhile.
local delayed = redis.call('ZCARD', fixed_key('delayed'))
for rank = 0, LAST_RANK do
  local waiting = redis.call('ZCARD', ready_key(rank)) + redis.call('ZCARD', suspended_key(rank))
  if resumed == 1 and waiting + delayed > 0 then fresh[rank] = waiting + delayed end
end
wake()
return resumed
