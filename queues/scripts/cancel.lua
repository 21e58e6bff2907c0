-- cancel: items leave without being done, from wherever they are.
-- KEYS[1]  prefix of the queue
-- ARGV     the keys
-- Returns  for each key: cancelled | stopping (it is in flight and leaves with the end of its
--          claim, whatever that is; its successor is dropped) | unknown
-- Atomic   over the whole list. What is dead under a key is cancelled with what is live. The
--          causes are forgotten: asked for again, they are new.
-- Why      an item in flight stays until its claim ends, because somebody may be at work on it: at
--          most one visibility time.

local function stop(key, live)
  take_successor(live)
  for _, cause in ipairs(causes_of(live)) do live['c:' .. cause[1]] = nil end
  live.cancelled, live.causes = 1, 0
  write(item_key(key), live)
end

local function leave(key, live)
  local set = live.state == 'delayed' and 'delayed' or live.state .. ':' .. live.rank
  redis.call('ZREM', fixed_key(set), key)
  finish(key, live)
end

local results = {}
for _, key in ipairs(ARGV) do
  unpack_item(key)
  local dead, live, outcome = take_dead(key), read(item_key(key)), 'unknown'
  if dead then outcome = 'cancelled' end
  if live and live.state == 'in_flight' then
    stop(key, live)
    outcome = 'stopping'
  elseif live then
    leave(key, live)
    outcome = 'cancelled'
  end
  results[#results + 1] = outcome
end
wake()
return results
