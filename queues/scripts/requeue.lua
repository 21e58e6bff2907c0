-- requeue: dead items are ready again, with a new deadline and no attempts.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, the service target in ms of ranks 0 to 4, then the keys
-- Returns  for each key: 1, or 0 when nothing is dead under it
-- Atomic   over the whole list. Work that is known under the key meanwhile absorbs the causes:
--          a waiting item directly, a claimed one in its successor, whose payload is then the
--          claim's, because that was asked for later.

local now, results = now_ms(ARGV[1]), {}

local function join_waiting(key, live, dead)
  local old_rank, state = live.rank, live.state
  merge(live, dead)
  write(item_key(key), live)
  set_urgency(key, state, old_rank, live.rank, live.deadline)
end

local function join_claimed(key, live, dead)
  for field in pairs(dead) do
    if string.sub(field, 1, 2) == 'c:' and live[field] then
      dead[field] = nil
      dead.causes = tonumber(dead.causes) - 1
    end
  end
  if tonumber(dead.causes) == 0 then return end
  local successor = take_successor(live)
  if successor then merge(successor, dead) else
    successor = dead
    successor.payload = live.payload
  end
  for _, cause in ipairs(causes_of(successor)) do live['n:' .. cause[1]] = cause[2] .. cause[3] end
  for _, field in ipairs({ 'rank', 'deadline', 'enqueued', 'payload', 'causes' }) do
    live['next_' .. field] = successor[field]
  end
  write(item_key(key), live)
end

for i = 7, #ARGV do
  local key = ARGV[i]
  local dead = take_dead(key)
  if dead then
    dead.attempt, dead.enqueued, dead.error = 0, now, nil
    dead.deadline = now + tonumber(ARGV[2 + tonumber(dead.rank)])
    local live = read(item_key(key))
    if not live then
      make_ready(key, dead)
    elseif live.state == 'in_flight' then
      join_claimed(key, live, dead)
    else
      join_waiting(key, live, dead)
    end
  end
  results[#results + 1] = dead and 1 or 0
end
wake()
return results
