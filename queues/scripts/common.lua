-- Put in front of every script before it is sent; it holds no step of its own.
--
-- KEYS[1] of every script is the prefix of one queue (or lease, or fleet) and carries the hash
-- tag, so each key that is derived from it lies on the same cluster node.
--
-- A record is the hash <prefix>item:<key>:
--   state     ready | suspended | delayed | in_flight
--   rank      0 (most urgent) .. 4               deadline  ms
--   enqueued  ms                                 attempt   deliveries so far
--   payload   newest bytes asked for             token     of the claim that holds it
--   error     last failure                       cancelled 1: the end of its claim is its own
--   stamp     ms of its first suspension
--   causes    how many causes, kept or not
--   c:<cause> order of arrival, then its lineage (bytes that no script reads)
-- and, while it is in flight and more was asked for, its successor:
--   next_rank next_deadline next_enqueued next_payload next_causes n:<cause>
-- A dead item is the hash <prefix>dead-item:<key>: the same, with signature and died.

local PREFIX = KEYS[1]
local LAST_RANK = 4
local CAUSES_KEPT = 1000
local WAKES_MAX = 16

-- '' asks for the server's own clock, so that a fleet has one.
local function now_ms(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function item_key(key) return PREFIX .. 'item:' .. key end
local function dead_key(key) return PREFIX .. 'dead-item:' .. key end
local function ready_key(rank) return PREFIX .. 'ready:' .. tostring(rank) end
local function suspended_key(rank) return PREFIX .. 'suspended:' .. tostring(rank) end
local function wake_key(rank) return PREFIX .. 'wake:' .. tostring(rank) end

local function read(hash)
  local flat = redis.call('HGETALL', hash)
  if #flat == 0 then return nil end
  local record = {}
  for i = 1, #flat, 2 do record[flat[i]] = flat[i + 1] end
  return record
end

-- At most 2 * CAUSES_KEPT + 20 fields, which one unpack can carry.
local function write(hash, record)
  local flat = {}
  for field, value in pairs(record) do
    flat[#flat + 1] = field
    flat[#flat + 1] = value
  end
  redis.call('DEL', hash)
  redis.call('HSET', hash, unpack(flat))
end

local function holds(key, token)
  return redis.call('HGET', item_key(key), 'token') == token
end

-- How many items became ready in this call, by rank.
local fresh = {}
local function count_fresh(rank)
  rank = tonumber(rank)
  fresh[rank] = (fresh[rank] or 0) + 1
end

-- Which ranks may be claimed, as paused[rank]; true for all when the queue is paused.
local function paused_ranks()
  local paused = {}
  local fields = redis.call('HKEYS', PREFIX .. 'paused')
  for _, field in ipairs(fields) do
    for rank = 0, LAST_RANK do
      if field == 'all' or field == tostring(rank) then paused[rank] = true end
    end
  end
  return paused
end

-- Tells sleepers of what became ready. A wake is a hint: pushed only while somebody may sleep,
-- and never more than WAKES_MAX wait in one list.
local function wake()
  if next(fresh) == nil or redis.call('EXISTS', PREFIX .. 'sleeping') == 0 then return end
  local paused = paused_ranks()
  for rank, count in pairs(fresh) do
    if not paused[rank] then
      local room = WAKES_MAX - redis.call('LLEN', wake_key(rank))
      for _ = 1, math.min(count, room) do redis.call('RPUSH', wake_key(rank), '1') end
    end
  end
end

local function causes_of(record)
  local found = {}
  for field, value in pairs(record) do
    if string.sub(field, 1, 2) == 'c:' then
      local order = string.match(value, '^%d+')
      found[#found + 1] = { string.sub(field, 3), tonumber(order), string.sub(value, #order + 1) }
    end
  end
  table.sort(found, function(a, b) return a[2] < b[2] end)
  return found
end

-- The causes of `other` join `record`; the more urgent rank and deadline win.
local function merge(record, other)
  local count = tonumber(record.causes)
  local found = causes_of(other)
  for _, cause in ipairs(found) do
    local field = 'c:' .. cause[1]
    if not record[field] then
      count = count + 1
      if count <= CAUSES_KEPT then record[field] = count .. cause[3] end
    end
  end
  record.causes = count + tonumber(other.causes) - #found
  for _, field in ipairs({ 'rank', 'deadline', 'enqueued' }) do
    record[field] = math.min(tonumber(record[field]), tonumber(other[field]))
  end
end

-- Takes the successor out of a record and returns it as a record of its own, or nil.
local function take_successor(record)
  if not record.next_causes then return nil end
  local successor = {
    rank = record.next_rank, deadline = record.next_deadline, enqueued = record.next_enqueued,
    payload = record.next_payload, causes = record.next_causes, attempt = 0,
  }
  for field, value in pairs(record) do
    local mark = string.sub(field, 1, 2)
    if mark == 'n:' then successor['c:' .. string.sub(field, 3)] = value end
    if mark == 'n:' or string.sub(field, 1, 5) == 'next_' then record[field] = nil end
  end
  return successor
end

local function absorb_successor(record)
  local successor = take_successor(record)
  if successor then
    merge(record, successor)
    record.payload = successor.payload
  end
end

local function make_ready(key, record)
  record.state, record.token = 'ready', nil
  write(item_key(key), record)
  redis.call('ZADD', ready_key(record.rank), record.deadline, key)
  count_fresh(record.rank)
end

-- A waiting item gets another rank and deadline; a more urgent rank ends its suspension.
local function set_urgency(key, state, old_rank, rank, deadline)
  local item = item_key(key)
  redis.call('HSET', item, 'rank', rank, 'deadline', deadline)
  if state == 'suspended' and tonumber(old_rank) ~= tonumber(rank) then
    redis.call('ZREM', suspended_key(old_rank), key)
    redis.call('HSET', item, 'state', 'ready')
    redis.call('ZADD', ready_key(rank), deadline, key)
    count_fresh(rank)
  elseif state == 'ready' then
    if tonumber(old_rank) ~= tonumber(rank) then
      redis.call('ZREM', ready_key(old_rank), key)
      count_fresh(rank)
    end
    redis.call('ZADD', ready_key(rank), deadline, key)
  end
end

-- A live item, already out of its sorted set, is gone; its successor takes its place.
local function finish(key, record)
  local successor = take_successor(record)
  redis.call('DEL', item_key(key))
  if successor then make_ready(key, successor) end
end

-- Takes an item out of the dead letter box and returns its record, or nil.
local function take_dead(key)
  local dead = read(dead_key(key))
  if not dead then return nil end
  if redis.call('HINCRBY', PREFIX .. 'dead-signatures', dead.signature, -1) == 0 then
    redis.call('HDEL', PREFIX .. 'dead-signatures', dead.signature)
  end
  redis.call('ZREM', PREFIX .. 'dead-of:' .. dead.signature, key)
  redis.call('ZREM', PREFIX .. 'dead', key)
  redis.call('DEL', dead_key(key))
  dead.signature, dead.died = nil, nil
  return dead
end

-- What a rank serves next, up to `limit`: what was suspended first, then the earliest deadline.
-- Returns a flat list of keys and deadlines, and how many of the first were suspended.
local function head_of(rank, limit)
  local head, suspended = {}, redis.call('ZRANGE', suspended_key(rank), 0, limit - 1)
  local ready = redis.call('ZRANGE', ready_key(rank), 0, limit - 1, 'WITHSCORES')
  if #suspended == 0 then return ready, 0 end
  for _, key in ipairs(suspended) do
    head[#head + 1] = key
    head[#head + 1] = redis.call('HGET', item_key(key), 'deadline')
  end
  for _, value in ipairs(ready) do head[#head + 1] = value end
  return head, #suspended
end

-- What is served next, up to `limit`, of the ranks up to `least` that are not paused: all of the
-- top rank, then of the others whichever serves the earliest deadline next. Returns the keys in
-- order, and for each rank how many it gave and how many of its first were suspended.
local function service_order(limit, least, paused)
  local heads, given, suspended, keys = {}, {}, {}, {}
  local room = limit
  for rank = 0, least do
    heads[rank], given[rank], suspended[rank] = {}, 0, 0
    if room > 0 and not paused[rank] then
      heads[rank], suspended[rank] = head_of(rank, room)
    end
    if rank == 0 then
      given[0] = math.min(limit, #heads[0] / 2)
      for i = 1, given[0] do keys[i] = heads[0][i * 2 - 1] end
      room = limit - given[0]
    end
  end
  while #keys < limit do
    local best, best_deadline = nil, nil
    for rank = 1, least do
      local deadline = tonumber(heads[rank][given[rank] * 2 + 2])
      if deadline and (not best or deadline < best_deadline) then
        best, best_deadline = rank, deadline
      end
    end
    if not best then break end
    keys[#keys + 1] = heads[best][given[best] * 2 + 1]
    given[best] = given[best] + 1
  end
  return keys, given, suspended
end

