-- Put behind common.lua in front of every script of a lease; it holds no step of its own.
--
-- A hold is a member of <prefix>expiries (by the end of its time) and two fields under its name:
--   <prefix>tokens  its fencing token
--   <prefix>holds   "<rank> <slots> <cost>", rank 0 (least) .. LAST_CLASS, cost in millionths
-- <prefix>waiting:<rank> has who was refused, by the time until which they count as asking.

local LAST_CLASS = 2

local function waiting_key(rank) return fixed_key('waiting:' .. tostring(rank)) end

-- Every number goes to the server whole: Lua would write a large one with an exponent.
local function whole(number) return string.format('%.0f', number) end

local function forget(holder)
  redis.call('ZREM', fixed_key('expiries'), holder)
  redis.call('HDEL', fixed_key('tokens'), holder)
  redis.call('HDEL', fixed_key('holds'), holder)
end

-- Rank, slots and cost of a hold; nil for what is none, which is dropped.
local function hold_of(holder, kept)
  local rank, slots, cost = string.match(kept or '', '^([0-2]) (%d+) (%d+)$')
  if rank and #slots <= 5 and #cost <= 16 and named(holder) then
    return tonumber(rank), tonumber(slots), tonumber(cost)
  end
  drop('lease')
  forget(holder)
end

local HOLDS_MAX, HOLDS_BYTES_MAX = 100000, 67108864

-- Slots and cost that are held by each rank, but for one holder's own.
local function held(but)
  local slots, cost = {}, {}
  for rank = 0, LAST_CLASS do slots[rank], cost[rank] = 0, 0 end
  local flat = whole_hash(fixed_key('holds'), HOLDS_MAX, HOLDS_BYTES_MAX)
  if not flat then
    drop('lease', fixed_key('holds'))
    flat = {}
  end
  for i = 1, #flat, 2 do
    if flat[i] ~= but then
      local rank, some, much = hold_of(flat[i], flat[i + 1])
      if rank then
        slots[rank] = slots[rank] + some
        cost[rank] = cost[rank] + much
      end
    end
  end
  return slots, cost
end

local function next_token()
  local token = try('INCR', fixed_key('fence'))
  if token and token > 0 and token < 2 ^ 53 then return token end
  drop('number', fixed_key('fence'))
  return redis.call('INCR', fixed_key('fence'))
end

local function hold(name, rank, slots, cost, expires)
  local token = next_token()
  redis.call('ZADD', fixed_key('expiries'), whole(expires), name)
  redis.call('HSET', fixed_key('tokens'), name, token)
  redis.call('HSET', fixed_key('holds'), name, rank .. ' ' .. slots .. ' ' .. cost)
  return token
end
