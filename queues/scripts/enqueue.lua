-- enqueue: many requests for work, each new, joined to what is known, or already known.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, then for each item: key, rank, service_target_ms, cause, payload, lineage
-- Returns  for each item: new | merged | known | successor | dead
-- Atomic   over the whole list; items of one key are taken in the order given.

local now = now_ms(ARGV[1])
local dead_exist = redis.call('ZCARD', PREFIX .. 'dead') > 0

local function create(item, key, rank, deadline, cause, payload, lineage)
  redis.call('HSET', item, 'state', 'ready', 'rank', rank, 'deadline', deadline, 'enqueued', now,
    'attempt', 0, 'payload', payload, 'causes', 1, 'c:' .. cause, '1' .. lineage)
  redis.call('ZADD', ready_key(rank), deadline, key)
  count_fresh(rank)
end

-- The item waits; a delayed one keeps the time at which it is due.
local function join(item, key, rank, deadline, cause, payload, lineage, state)
  local old = redis.call('HMGET', item, 'rank', 'deadline', 'causes')
  local old_rank, count = tonumber(old[1]), tonumber(old[3]) + 1
  rank, deadline = math.min(rank, old_rank), math.min(deadline, tonumber(old[2]))
  redis.call('HSET', item, 'payload', payload, 'causes', count)
  if count <= CAUSES_KEPT then redis.call('HSET', item, 'c:' .. cause, count .. lineage) end
  set_urgency(key, state, old_rank, rank, deadline)
end

local function follow(item, rank, deadline, cause, payload, lineage)
  local old = redis.call('HMGET', item, 'next_rank', 'next_deadline', 'next_causes')
  local count = 1
  if old[3] then
    count = tonumber(old[3]) + 1
    rank, deadline = math.min(rank, tonumber(old[1])), math.min(deadline, tonumber(old[2]))
  else
    redis.call('HSET', item, 'next_enqueued', now)
  end
  redis.call('HSET', item, 'next_rank', rank, 'next_deadline', deadline, 'next_payload', payload,
    'next_causes', count)
  if count <= CAUSES_KEPT then redis.call('HSET', item, 'n:' .. cause, count .. lineage) end
end

local states = {}
for i = 2, #ARGV, 6 do
  local key, rank, cause, payload = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 3], ARGV[i + 4]
  local lineage = ARGV[i + 5]
  local deadline, item, outcome = now + tonumber(ARGV[i + 2]), item_key(key), nil
  local seen = redis.call('HMGET', item, 'state', 'c:' .. cause, 'n:' .. cause)
  if dead_exist and redis.call('HEXISTS', dead_key(key), 'c:' .. cause) == 1 then
    outcome = 'dead'
  elseif not seen[1] then
    create(item, key, rank, deadline, cause, payload, lineage)
    outcome = 'new'
  elseif seen[2] or seen[3] then
    outcome = 'known'
  elseif seen[1] == 'in_flight' then
    follow(item, rank, deadline, cause, payload, lineage)
    outcome = 'successor'
  else
    join(item, key, rank, deadline, cause, payload, lineage, seen[1])
    outcome = 'merged'
  end
  states[#states + 1] = outcome
end
wake()
return states
