-- Put in front of every script before it is sent; it holds no step of its own.
--
-- KEYS[1] of every script is the prefix of one queue (or lease, or fleet) and carries the hash
-- tag, so each key that is derived from it lies on the same cluster node.
--
-- A record is the hash <prefix>item:<key>:
--   state     ready | delayed | in_flight        rank      0 (most urgent) .. 4
--   deadline  ms                                 enqueued  ms
--   attempt   deliveries so far                  payload   newest bytes asked for
--   causes    how many causes, kept or not       token     of the claim that holds it
--   error     last failure                       c:<cause> order of arrival
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

local function causes_of(record)
  local found = {}
  for field, order in pairs(record) do
    if string.sub(field, 1, 2) == 'c:' then
      found[#found + 1] = { string.sub(field, 3), tonumber(order) }
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
      if count <= CAUSES_KEPT then record[field] = count end
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
  local fresh = {
    rank = record.next_rank, deadline = record.next_deadline, enqueued = record.next_enqueued,
    payload = record.next_payload, causes = record.next_causes, attempt = 0,
  }
  for field, value in pairs(record) do
    local mark = string.sub(field, 1, 2)
    if mark == 'n:' then fresh['c:' .. string.sub(field, 3)] = value end
    if mark == 'n:' or string.sub(field, 1, 5) == 'next_' then record[field] = nil end
  end
  return fresh
end

local function absorb_successor(record)
  local fresh = take_successor(record)
  if fresh then
    merge(record, fresh)
    record.payload = fresh.payload
  end
end

local function make_ready(key, record)
  record.state = 'ready'
  record.token = nil
  write(item_key(key), record)
  redis.call('ZADD', ready_key(record.rank), record.deadline, key)
end

local function holds(key, token)
  return redis.call('HGET', item_key(key), 'token') == token
end

-- A wake is a hint: pushed only while somebody may sleep, and never more than WAKES_MAX wait.
local function wake(count)
  if count < 1 or redis.call('EXISTS', PREFIX .. 'sleeping') == 0 then return end
  local room = WAKES_MAX - redis.call('LLEN', PREFIX .. 'wake')
  for _ = 1, math.min(count, room) do redis.call('RPUSH', PREFIX .. 'wake', '1') end
end

-- The earliest deadlines over all ranks: keys in order, and how many of them each rank gave.
local function earliest(limit)
  local heads, taken, keys = {}, {}, {}
  for rank = 0, LAST_RANK do
    heads[rank] = redis.call('ZRANGE', ready_key(rank), 0, limit - 1, 'WITHSCORES')
    taken[rank] = 0
  end
  while #keys < limit do
    local best, best_deadline = nil, nil
    for rank = 0, LAST_RANK do
      local deadline = tonumber(heads[rank][taken[rank] * 2 + 2])
      if deadline and (not best or deadline < best_deadline) then
        best, best_deadline = rank, deadline
      end
    end
    if not best then break end
    keys[#keys + 1] = heads[best][taken[best] * 2 + 1]
    taken[best] = taken[best] + 1
  end
  return keys, taken
end

