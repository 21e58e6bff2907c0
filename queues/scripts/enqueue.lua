-- enqueue: many requests for work, each new, joined to what is known, or already known.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, the least urgent rank of the queue, the mark of a relay or '', how many items
--          the ledger knows more of, for each of these its place in the list, ms of its first
--          suspension or 0, its attempts, its ends and ms until it is due (1: it is), then for each
--          item: key, rank, service_target_ms, cause, payload, lineage
-- Returns  for each item: new | merged | known | successor | dead; nothing where the queue has
--          another mark, and then nothing was added
-- Atomic   over the whole list; items of one key are taken in the order given. An item that is not
--          there and was suspended before Redis lost it waits in its old place, and what is
--          suspended from then on comes behind it. One that failed before has its attempts, and
--          waits until it is due; one that waits already is due when the ledger says.

if ARGV[3] ~= '' and redis.call('GETRANGE', fixed_key('mark'), 0, 31) ~= ARGV[3] then return {} end
local RELAY_LATE_MS = 1000
local now, last_rank = now_ms(ARGV[1]), tonumber(ARGV[2])
local dead_exist = redis.call('ZCARD', fixed_key('dead')) > 0

-- What is new becomes ready together, before anything looks at the sets, and is held by no claim
-- that is left of an item of before.
local added, made = {}, {}
local function place_added()
  for rank, adds in pairs(added) do redis.call('ZADD', ready_key(rank), unpack(adds)) end
  if #made > 0 then redis.call('HDEL', fixed_key('claims'), unpack(made)) end
  added, made = {}, {}
end

-- Whether an item is new and therefore made, packed.
local last_stamp = 0
local function create(item, key, rank, deadline, bytes)
  if redis.call('SETNX', item, bytes) == 0 then return false end
  local adds = added[rank] or {}
  added[rank], adds[#adds + 1], adds[#adds + 2] = adds, deadline, key
  made[#made + 1] = key
  count_fresh(rank)
  return true
end


-- What the ledger knows of an item that is new here: it waits where it waited.
local function restore(item, key, rank, known)
  place_added()
  unpack_item(key)
  redis.call('HSET', item, 'attempt', known.attempts)
  if known.attempts > 0 or known.delay > 0 then redis.call('HSET', item, 'error', 'restored') end
  if known.ends > 0 then redis.call('HSET', item, 'ends', known.ends) end
  if known.stamp > 0 then
    redis.call('HSET', item, 'state', 'suspended', 'stamp', known.stamp)
    last_stamp = math.max(last_stamp, known.stamp)
  end
  local waits = known.delay > 1
  if waits then
    redis.call('HSET', item, 'state', 'delayed')
    redis.call('ZADD', fixed_key('delayed'), now + known.delay, key)
  elseif known.stamp > 0 then
    redis.call('ZADD', suspended_key(rank), known.stamp, key)
  end
  if waits or known.stamp > 0 then redis.call('ZREM', ready_key(rank), key) end
end

-- An item that waits for its next attempt is due when the ledger says, up to the time that the relay
-- took to say it: another policy may have come into force.
local function follow_ledger(key, rank, state, known)
  local due = state == 'delayed' and known.delay > 1 and now + known.delay
  local at = due and tonumber(redis.call('ZSCORE', fixed_key('delayed'), key) or nil)
  if at and math.abs(at - due) > RELAY_LATE_MS then
    redis.call('ZADD', fixed_key('delayed'), due, key)
    if due < at then count_fresh(rank) end
  end
end

-- Whether an item stands in the set of its state, where somebody will find it.
local function is_placed(key, state, rank)
  local ends = state == 'delayed' or state == 'in_flight'
  local set = ends and string.gsub(state, '_', '-') or state .. ':' .. rank
  local score = tonumber(redis.call('ZSCORE', fixed_key(set), key) or nil)
  return score and (not ends or score <= now + TIME_MS_MAX)
end

-- What is known of an item and of a cause; nil where there is no item. One that is unsound is
-- dropped, and one that has fallen out of its set (a part of Redis was lost) is ready again. One
-- that is packed, and has the cause, stays so and brings its payload; no other stays packed.
local function look(key, item, cause)
  local record, seen = packed(key), nil
  if record and record['c:' .. cause] then
    seen = { record.state, true, false, record.rank, record.deadline, record.causes }
  else
    if record then unpack_item(key) end
    seen = try('HMGET', item, 'state', 'c:' .. cause, 'n:' .. cause, 'rank', 'deadline', 'causes',
      'ends') or {}
  end
  local rank, deadline, causes = number(seen[4]), number(seen[5]), number(seen[6])
  local is_sound = STATES[seen[1] or ''] and deadline and causes and rank
  if not is_sound or rank < 0 or rank > last_rank or deadline > now + TIME_MS_MAX then
    if redis.call('EXISTS', item) == 1 then drop('item', item) end
    return nil
  end
  return {
    state = seen[1], known = seen[2] or seen[3], rank = rank, deadline = deadline, causes = causes,
    is_worn_out = is_worn_out(seen[7]), payload = record and record.payload,
  }
end

local function found(key, item, cause)
  place_added()
  local seen = look(key, item, cause)
  if not seen or is_placed(key, seen.state, seen.rank) then return seen end
  drop('misplaced')
  unpack_item(key)
  local record = read(item)
  if record and record.cancelled then
    finish(key, record)
  elseif record then
    absorb_successor(record)
    let_wait(key, record)
  end
  return look(key, item, cause)
end

-- A waiting item gets another rank and deadline; a more urgent rank ends its suspension.
local function set_urgency(key, state, old_rank, rank, deadline)
  local item = item_key(key)
  local is_raised = tonumber(old_rank) ~= tonumber(rank)
  redis.call('HSET', item, 'rank', rank, 'deadline', deadline)
  if is_raised and state ~= 'ready' then redis.call('HDEL', item, 'stamp') end
  if state == 'suspended' and is_raised then
    redis.call('ZREM', suspended_key(old_rank), key)
    redis.call('HSET', item, 'state', 'ready')
    redis.call('ZADD', ready_key(rank), deadline, key)
    count_fresh(rank)
  elseif state == 'ready' then
    if is_raised then
      redis.call('ZREM', ready_key(old_rank), key)
      count_fresh(rank)
    end
    redis.call('ZADD', ready_key(rank), deadline, key)
  end
end

-- The item waits; a delayed one keeps the time at which it is due.
local function join(item, key, rank, deadline, cause, payload, lineage, seen)
  local count = seen.causes + 1
  redis.call('HSET', item, 'payload', payload, 'causes', count)
  if count <= CAUSES_KEPT then redis.call('HSET', item, 'c:' .. cause, count .. lineage) end
  set_urgency(key, seen.state, seen.rank, math.min(rank, seen.rank),
    math.min(deadline, seen.deadline))
end

local function follow(item, rank, deadline, cause, payload, lineage)
  local old = redis.call('HMGET', item, 'next_rank', 'next_deadline', 'next_causes')
  local old_rank, old_deadline, count = number(old[1]), number(old[2]), number(old[3])
  if old_rank and old_deadline and count then
    rank, deadline = math.min(rank, old_rank), math.min(deadline, old_deadline)
  else
    count = 0
    redis.call('HSET', item, 'next_enqueued', now)
  end
  count = count + 1
  redis.call('HSET', item, 'next_rank', rank, 'next_deadline', deadline, 'next_payload', payload,
    'next_causes', count)
  if count <= CAUSES_KEPT then redis.call('HSET', item, 'n:' .. cause, count .. lineage) end
end

-- The version that a payload states (kernel/values/fleet_protocol.py), nil where it states none.
local function version_of(payload)
  return payload and string.match(payload, '^{"protocol":(%d+),')
end

-- What waits is stated in the version of whoever relays now: that of a gateway that has left may be
-- spoken by no worker (decision queues/0071).
local function restate(key, item, seen, payload)
  local version = seen.state ~= 'in_flight' and version_of(payload)
  if not version then return end
  local before = version_of(seen.payload or short_field(item, 'payload', VALUE_BYTES_MAX))
  if before and before ~= version then
    unpack_item(key)
    redis.call('HSET', item, 'payload', payload)
  end
end

-- Whether a cause was buried.
local function is_dead(key, cause)
  local has = try('HEXISTS', dead_key(key), 'c:' .. cause)
  if not has then drop('wrong_type', dead_key(key)) end
  return has == 1
end

local first, known_of = 5 + 5 * tonumber(ARGV[4]), {}
for i = 5, first - 1, 5 do
  known_of[tonumber(ARGV[i])] = {
    stamp = tonumber(ARGV[i + 1]), attempts = tonumber(ARGV[i + 2]), ends = tonumber(ARGV[i + 3]),
    delay = tonumber(ARGV[i + 4]),
  }
end

local states = {}
for i = first, #ARGV, 6 do
  local key, rank, cause, payload = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 3], ARGV[i + 4]
  local lineage, known = ARGV[i + 5], known_of[#states + 1]
  local deadline, item, outcome = now + tonumber(ARGV[i + 2]), item_key(key), nil
  local is_buried = dead_exist and is_dead(key, cause)
  local bytes = pack(rank, deadline, now, cause, lineage, payload)
  local is_new = not is_buried and create(item, key, rank, deadline, bytes)
  local seen = not is_buried and not is_new and found(key, item, cause)
  if is_buried then
    outcome = 'dead'
  elseif is_new or not seen and create(item, key, rank, deadline, bytes) then
    if known then restore(item, key, rank, known) end
    outcome = 'new'
  elseif seen.known then
    restate(key, item, seen, payload)
    if known then follow_ledger(key, rank, seen.state, known) end
    outcome = 'known'
  elseif seen.state == 'in_flight' or seen.is_worn_out then
    follow(item, rank, deadline, cause, payload, lineage)
    outcome = 'successor'
  else
    join(item, key, rank, deadline, cause, payload, lineage, seen)
    outcome = 'merged'
  end
  states[#states + 1] = outcome
end
place_added()
if last_stamp > 0 then raise_stamp(last_stamp) end
wake()
return states
