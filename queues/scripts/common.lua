-- Put in front of every script before it is sent; it holds no step of its own.
--
-- KEYS[1] of every script is the prefix of one queue (or lease, or fleet) and carries the hash
-- tag, so each key that is derived from it lies on the same cluster node.
--
-- An item that was asked for once, and was claimed once at most, is packed: nearly every item is,
-- from beginning to end. The string <prefix>item:<key> is
--   1 <rank> <deadline> <enqueued> <bytes of the cause> <bytes of its lineage>, a line feed, then
--   the cause, its lineage and the payload,
-- and while it is in flight, the hash <prefix>claims has the token of its claim under its key. A
-- claim and its end so cost one command for the whole batch, beside one that reads each item.
-- Whatever else happens to an item makes a hash of it first (`unpack_item`; decision queues/0099).
--
-- Causes are fields of the hash, because nearly every item has few. A cause beyond CAUSES_KEPT is
-- counted and not kept, so it is not recognised when it is sent again, and the item is delivered
-- once more; the open request on the ledger makes that harmless. Each cause carries its own
-- lineage, the operation and trace that caused it: some 80 bytes where there is one.
--
-- A record that is not packed is the hash <prefix>item:<key>:
--   state     ready | suspended | delayed | in_flight
--   rank      0 (most urgent) .. 4               deadline  ms
--   enqueued  ms                                 attempt   deliveries so far
--   payload   newest bytes asked for             token     of the claim that holds it
--   error     last failure                       cancelled 1: the end of its claim is its own
--   stamp     ms of its first suspension, by which it waits from then on
--   ends      there once a claim expired: how many expired after it had been begun
--   lost      token of the claim that expired last, and
--   lost_at   when it did, until the item is begun
--   begun     1: its holder has begun it, with nothing else of its process's beside it
--   causes    how many causes, kept or not
--   c:<cause> order of arrival, then its lineage (bytes that no script reads)
-- and, while it is in flight or worn out and more was asked for, its successor:
--   next_rank next_deadline next_enqueued next_payload next_causes n:<cause>
-- A dead item is the hash <prefix>dead-item:<key>: the same.

--
-- Redis may hold anything: what a script reads there is checked before it is used. A value that no
-- script writes is dropped, counted by its kind, and the script goes on as if it had been lost.
--
-- Redis may hold as much of it as it likes: a hash is counted and weighed before it is read as a
-- whole, a text measured. Members of sets, notes and entries cannot be measured by a command; a
-- script reads them where they lie, and what is too long is dropped there and sent to nobody.

local PREFIX = KEYS[1]
local LAST_RANK = 4
local CAUSES_KEPT = 1000
local ENDS_MAX = 3 -- of its workers, after which an item is given up, as in a retry policy
local WAKES_MAX = 16
local NAME_BYTES_MAX = 512
local VALUE_BYTES_MAX = 65536
local PACKED_BYTES_MAX = VALUE_BYTES_MAX + 4 * NAME_BYTES_MAX
local RECORD_FIELDS_MAX = 2 * CAUSES_KEPT + 40
local RECORD_BYTES_MAX = 8388608 -- weighed, so with what the server needs beside it
local REPLY_BYTES_MAX = 33554432 -- of the records in one reply, but for the last of them
local FIELD_BYTES_MIN = 8 -- in the weight of a hash, whatever the field holds
local TIME_MS_MAX = 604800000 -- no claim, delay or lease lasts longer

-- How much was dropped in this call, by kind.
local dropped = {}
local function drop(kind, key)
  if key then redis.call('UNLINK', key) end
  dropped[kind] = (dropped[kind] or 0) + 1
end

-- What a server says of a value that is of another type, or none that can be counted on.
local FOREIGN = { 'WRONGTYPE', 'not an integer', 'would overflow', 'has exhausted' }

-- The answer to a command, nil where it meets a foreign value. Every other error is raised.
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  for _, words in ipairs(FOREIGN) do
    if string.find(tostring(reply.err), words, 1, true) then return nil end
  end
  return redis.call(...)
end

local function expect_type(name, wanted)
  local found = redis.call('TYPE', PREFIX .. name)
  found = found.ok or found
  if found ~= wanted and found ~= 'none' then drop('wrong_type', PREFIX .. name) end
end

-- KEY_TYPES is put in front of this. A key of a fixed name is looked at when a call first uses it.
local typed = {}
local function fixed_key(name)
  if not typed[name] then
    expect_type(name, KEY_TYPES[name])
    typed[name] = PREFIX .. name
  end
  return typed[name]
end

-- A hash as a flat list: empty where there is none, nil where it has more fields, or weighs more,
-- than it may. The weight is exact where there are at most `fields_max` fields, so that one which
-- may have more is counted first. A server that does not weigh is believed.
local function whole_hash(hash, fields_max, bytes_max)
  local weight = redis.pcall('MEMORY', 'USAGE', hash, 'SAMPLES', fields_max)
  if not weight then return {} end
  local is_weighed = type(weight) == 'number'
  if is_weighed and weight > bytes_max then return nil end
  if not is_weighed or weight >= FIELD_BYTES_MIN * fields_max then
    local count = try('HLEN', hash)
    if not count or count > fields_max then return nil end
  end
  return try('HGETALL', hash)
end

-- A field of a hash, or a text; nil where there is none or it is longer than it may be.
local function short_field(hash, field, bytes_max)
  local bytes = try('HSTRLEN', hash, field)
  if bytes and bytes > 0 and bytes <= bytes_max then return redis.call('HGET', hash, field) end
end

local function short_text(key, bytes_max)
  local bytes = try('STRLEN', key)
  if bytes and bytes > 0 and bytes <= bytes_max then return redis.call('GET', key) end
end

-- Keys of a sorted set from the first place to the last; what is no name leaves it.
local function keys_of(set, first, last)
  local keys = redis.call('ZRANGE', set, first, last)
  for i = #keys, 1, -1 do
    if #keys[i] > NAME_BYTES_MAX then
      drop('name')
      redis.call('ZREM', set, keys[i])
      table.remove(keys, i)
    end
  end
  return keys
end

-- A number as it is written here: whole, and short enough to be exact; nil for anything else.
local function number(value)
  if value and #value <= 15 and string.find(value, '^%-?%d+$') then return tonumber(value) end
  return nil
end

-- What may stand inside a hash tag, as `check_name` has it.
local function named(name)
  return #name <= 160 and string.find(name, '^[%w_.:/-]+$') ~= nil
end

local function each_pair(flat)
  local i = -1
  return function()
    i = i + 2
    return flat[i], flat[i + 1]
  end
end

local function server_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local CLOCK_GAP_MS, CLOCK_KEPT_MS = 5000, 100

-- The time by which everything behind a prefix ends, in ms. It never goes back (decision
-- queues/0070): <prefix>clock has the time of the server at the last look, and by how much this
-- time is ahead of it. Where the server is behind the last look, this time is ahead by as much more.
-- Of what passes between two looks a tenth, and all that is beyond CLOCK_GAP_MS, makes up for it.
-- '' asks for the server's own clock, so that a fleet has one. A server that refuses to keep the
-- look is asked again by the next.
local function now_ms(given)
  local server, name = tonumber(given) or server_ms(), fixed_key('clock')
  local kept = redis.call('GETRANGE', name, 0, 31)
  local seen, ahead = string.match(kept, '^(%d+) (%d+)$')
  seen, ahead = number(seen), number(ahead)
  local is_known = seen and ahead and seen <= server + TIME_MS_MAX and ahead <= TIME_MS_MAX
  if not is_known then
    if #kept > 0 then drop('clock', name) end
    seen, ahead = server, 0
  end
  local passed = server - seen
  local made_up = math.max(math.floor(passed / 10), passed - CLOCK_GAP_MS)
  ahead = passed < 0 and ahead - passed or math.max(0, ahead - made_up)
  if not is_known or passed < 0 or passed >= CLOCK_KEPT_MS then
    redis.pcall('SET', name, string.format('%.0f %.0f', server, ahead))
  end
  return server + ahead
end

local function item_key(key) return PREFIX .. 'item:' .. key end
local function dead_key(key) return PREFIX .. 'dead-item:' .. key end
local function ready_key(rank) return fixed_key('ready:' .. tostring(rank)) end
local function suspended_key(rank) return fixed_key('suspended:' .. tostring(rank)) end
local function wake_key(rank) return fixed_key('wake:' .. tostring(rank)) end

local STATES = { ready = true, suspended = true, delayed = true, in_flight = true, dead = true }
local REQUIRED = {
  state = true, rank = true, deadline = true, enqueued = true, attempt = true, causes = true,
  payload = true,
}
-- Fields that are numbers, and how many digits they have at most.
local DIGITS = {
  rank = 1, deadline = 15, enqueued = 15, attempt = 9, causes = 9, stamp = 15, ends = 9,
  lost_at = 15,
  next_rank = 1, next_deadline = 15, next_enqueued = 15, next_causes = 9,
}

local function is_sound_field(field, value)
  if #value > VALUE_BYTES_MAX then return false end
  local digits = DIGITS[field]
  if digits then
    if #value > digits or not number(value) then return false end
    return digits > 1 or tonumber(value) <= LAST_RANK
  end
  if field == 'state' then return STATES[value] ~= nil end
  local mark = string.sub(field, 1, 2)
  return (mark ~= 'c:' and mark ~= 'n:') or string.find(value, '^%d') ~= nil
end

-- Bytes of the records that were read in this call.
local reply_bytes = 0

-- A record as it was written here, flat, and whether a claim of it has expired; empty where there
-- is none. What is unsound is dropped.
local function flat_of(hash, kind)
  local flat, required = whole_hash(hash, RECORD_FIELDS_MAX, RECORD_BYTES_MAX), 7
  local is_sound, is_suspect, bytes = flat ~= nil, false, 0
  for field, value in each_pair(flat or {}) do
    is_sound = is_sound and is_sound_field(field, value)
    bytes = bytes + #field + #value
    if REQUIRED[field] then required = required - 1 end
    if field == 'ends' then is_suspect = true end
  end
  if is_sound and (#flat == 0 or required == 0) then
    reply_bytes = reply_bytes + bytes
    return flat, is_suspect
  end
  drop(kind, hash)
  return {}, false
end

-- Whether what was read in this call fills a reply.
local function is_full() return reply_bytes > REPLY_BYTES_MAX end

local function read(hash, kind)
  local flat = flat_of(hash, kind or 'item')
  if #flat == 0 then return nil end
  local record = {}
  for field, value in each_pair(flat) do record[field] = value end
  return record
end

local function pack(rank, deadline, enqueued, cause, lineage, payload)
  local head = string.format('1 %d %.0f %.0f %d %d\n', rank, deadline, enqueued, #cause, #lineage)
  return head .. cause .. lineage .. payload
end

-- A packed record as fields; nil where no version of this program wrote it.
local function fields_of(bytes)
  local rank, deadline, enqueued, cause, lineage, first =
    string.match(bytes, '^1 ([0-4]) (%d+) (%d+) (%d+) (%d+)\n()')
  cause, lineage = number(cause), number(lineage)
  if not (number(deadline) and number(enqueued) and cause and lineage) then return nil end
  local from, to = first + cause, first + cause + lineage
  if to - 1 > #bytes or #bytes > PACKED_BYTES_MAX then return nil end
  return {
    state = 'ready', rank = rank, deadline = deadline, enqueued = enqueued, attempt = '0',
    causes = '1', ['c:' .. string.sub(bytes, first, from - 1)] = '1' .. string.sub(bytes, from, to - 1),
    payload = string.sub(bytes, to),
  }
end

-- The record of a live item that is packed, as it stands; nil where none is. What is unsound is
-- dropped.
local function packed(key)
  local bytes = try('GETRANGE', item_key(key), 0, PACKED_BYTES_MAX)
  if not bytes or bytes == '' then return nil end
  local record = fields_of(bytes)
  if not record then
    drop('item', item_key(key))
    return nil
  end
  reply_bytes = reply_bytes + #bytes
  local token = short_field(fixed_key('claims'), key, NAME_BYTES_MAX)
  if token then record.state, record.token, record.attempt = 'in_flight', token, '1' end
  return record
end

-- At most RECORD_FIELDS_MAX fields, which one unpack can carry.
local function flattened(record)
  local flat = {}
  for field, value in pairs(record) do flat[#flat + 1], flat[#flat + 2] = field, value end
  return flat
end

local function write(hash, record)
  redis.call('DEL', hash)
  redis.call('HSET', hash, unpack(flattened(record)))
end

-- Makes a hash of an item that is packed.
local function unpack_item(key)
  local record = packed(key)
  if not record then return end
  write(item_key(key), record)
  if record.token then redis.call('HDEL', fixed_key('claims'), key) end
end

-- Rank and deadline of a live item, and the stamp of one that was suspended; nil where there is no
-- item. What is unsound is dropped.
local function urgency_of(key)
  local seen = try('HMGET', item_key(key), 'rank', 'deadline', 'stamp')
  if not seen then
    unpack_item(key) -- it lies where nothing packed waits
    seen = try('HMGET', item_key(key), 'rank', 'deadline', 'stamp') or {}
  end
  local rank, deadline = number(seen[1]), number(seen[2])
  if rank and deadline and rank >= 0 and rank <= LAST_RANK then
    return rank, deadline, number(seen[3])
  end
  if redis.call('EXISTS', item_key(key)) == 1 then drop('item', item_key(key)) end
end

-- The tokens of packed items that are in flight, in the order of the keys.
local function tokens_of(keys) return redis.call('HMGET', fixed_key('claims'), unpack(keys)) end

-- Whether a token holds an item, which is no longer packed then.
local function holds(key, token)
  if redis.call('HGET', fixed_key('claims'), key) == token then unpack_item(key) end
  return try('HGET', item_key(key), 'token') == token
end

-- How many items became ready in this call, by rank.
local fresh = {}
local function count_fresh(rank)
  rank = tonumber(rank)
  fresh[rank] = (fresh[rank] or 0) + 1
end

-- Which ranks may be claimed, as paused[rank]; true for all when the queue is paused.
local function paused_ranks()
  local paused, flags = {}, fixed_key('paused')
  if redis.call('EXISTS', flags) == 0 then return paused end
  local all = redis.call('HEXISTS', flags, 'all') == 1
  for rank = 0, LAST_RANK do
    if all or redis.call('HEXISTS', flags, tostring(rank)) == 1 then paused[rank] = true end
  end
  return paused
end

-- Tells sleepers of what became ready. A wake is a hint: pushed only while somebody may sleep,
-- and never more than WAKES_MAX wait in one list.
local function wake()
  if next(fresh) == nil or redis.call('EXISTS', fixed_key('sleeping')) == 0 then return end
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

-- The causes of `other` join `record`; the more urgent rank and deadline win, and a more urgent rank
-- ends a suspension.
local function merge(record, other)
  if tonumber(other.rank) < tonumber(record.rank) then record.stamp = nil end
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
  if successor.rank and successor.deadline and successor.enqueued and successor.payload then
    return successor
  end
  drop('item')
  return nil
end

-- Whether an item is only claimed once more to be given up. What is asked for from then on is not
-- given up with it: it was never tried.
local function is_worn_out(ends)
  return (number(ends) or 0) >= ENDS_MAX
end

local function absorb_successor(record)
  if is_worn_out(record.ends) then return end
  local successor = take_successor(record)
  if successor then
    merge(record, successor)
    record.payload = successor.payload
  end
end

-- The set in which an item waits: by its deadline, or once it was suspended in that order (§14.3).
local function take_place(key, rank, deadline, stamp)
  if stamp then
    redis.call('ZADD', suspended_key(rank), stamp, key)
  else
    redis.call('ZADD', ready_key(rank), deadline, key)
  end
end

local function let_wait(key, record)
  record.state, record.token, record.begun = record.stamp and 'suspended' or 'ready', nil, nil
  write(item_key(key), record)
  take_place(key, record.rank, record.deadline, record.stamp)
  count_fresh(record.rank)
end

local function last_stamp_given()
  return number(short_text(fixed_key('stamp'), 15)) or 0
end

-- What is suspended from now on is stamped behind this.
local function raise_stamp(stamp)
  redis.call('SET', fixed_key('stamp'), string.format('%.0f', math.max(stamp, last_stamp_given())))
end

-- A live item, already out of its sorted set, is gone; its successor takes its place.
local function finish(key, record)
  local successor = record and take_successor(record)
  redis.call('DEL', item_key(key))
  if successor then let_wait(key, successor) end
end

-- Takes what is buried under a key away and returns its record, or nil.
local function take_dead(key)
  local dead = read(dead_key(key), 'dead_item')
  redis.call('ZREM', fixed_key('dead'), key)
  redis.call('DEL', dead_key(key))
  return dead
end
