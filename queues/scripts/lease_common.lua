-- Put behind common.lua in front of every script of a lease; it holds no step of its own.
--
-- A hold is a member of <prefix>expiries (by the end of its time) and two fields under its name:
--   <prefix>tokens  its fencing token
--   <prefix>holds   "<rank> <slots> <cost>", rank 0 (least) .. LAST_CLASS, cost in millionths
-- <prefix>waiting:<rank> has who was refused, by the time until which they count as asking.

local LAST_CLASS = 2

local function waiting_key(rank) return PREFIX .. 'waiting:' .. tostring(rank) end

local function forget_expired(now)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', PREFIX .. 'expiries', '-inf', now)) do
    redis.call('ZREM', PREFIX .. 'expiries', gone)
    redis.call('HDEL', PREFIX .. 'tokens', gone)
    redis.call('HDEL', PREFIX .. 'holds', gone)
  end
  for rank = 0, LAST_CLASS do
    redis.call('ZREMRANGEBYSCORE', waiting_key(rank), '-inf', now)
  end
end

-- Slots and cost that are held by each rank, but for one holder's own.
local function held(but)
  local slots, cost = {}, {}
  for rank = 0, LAST_CLASS do slots[rank], cost[rank] = 0, 0 end
  local flat = redis.call('HGETALL', PREFIX .. 'holds')
  for i = 1, #flat, 2 do
    if flat[i] ~= but then
      local rank, some, much = string.match(flat[i + 1], '^(%d+) (%d+) (%d+)$')
      rank = tonumber(rank)
      slots[rank] = slots[rank] + tonumber(some)
      cost[rank] = cost[rank] + tonumber(much)
    end
  end
  return slots, cost
end

-- Every number goes to the server whole: Lua would write a large one with an exponent.
local function whole(number) return string.format('%.0f', number) end

local function hold(name, rank, slots, cost, expires)
  local token = redis.call('INCR', PREFIX .. 'fence')
  redis.call('ZADD', PREFIX .. 'expiries', whole(expires), name)
  redis.call('HSET', PREFIX .. 'tokens', name, token)
  redis.call('HSET', PREFIX .. 'holds', name, rank .. ' ' .. slots .. ' ' .. cost)
  return token
end
