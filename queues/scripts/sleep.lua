-- sleep: a consumer that found nothing says that it is about to block on the wake lists.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, timeout_ms, the least urgent rank that it takes
-- Returns  how many ms to block at most; 0 when there is something to claim already
-- Atomic   the look and the announcement, so that no item slips in between. Wakes that nobody
--          took are dropped here: nothing is ready, so they are about items already claimed.
-- Why      a wake is a hint. Scripts push to a list only while a sleeper has announced itself, and
--          at most WAKES_MAX entries; an exact queue of wakes would be a second queue. A consumer
--          may wake and find nothing.

local pause, least, paused = tonumber(ARGV[2]), tonumber(ARGV[3]), paused_ranks()
local lists = {}
for rank = 0, least do
  if not paused[rank] and redis.call('EXISTS', ready_key(rank), suspended_key(rank)) > 0 then
    return 0
  end
  lists[#lists + 1] = wake_key(rank)
end
local due = tonumber(redis.call('ZRANGE', fixed_key('delayed'), 0, 0, 'WITHSCORES')[2])
if due then pause = math.max(0, math.min(pause, due - now_ms(ARGV[1]))) end
if pause == 0 then return 0 end
redis.call('DEL', unpack(lists))
if redis.call('PTTL', fixed_key('sleeping')) < pause then
  redis.call('SET', fixed_key('sleeping'), '1', 'PX', pause + 1000)
end
return pause
