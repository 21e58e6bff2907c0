-- Put in front of the scripts that ask what a queue serves next (claim, peek), behind common.lua; it
-- holds no step of its own. The ready and the suspended set of a rank are sorted sets: by deadline,
-- and by the time of the first suspension.

-- What a rank serves next, up to `limit`: what was suspended first, then the earliest deadline.
-- Returns a flat list of keys and deadlines, and how many of the first were suspended.
local function head_of(rank, limit)
  local head, suspended = {}, redis.call('ZRANGE', suspended_key(rank), 0, limit - 1)
  local ready = redis.call('ZRANGE', ready_key(rank), 0, limit - 1, 'WITHSCORES')
  if #suspended == 0 then return ready, 0 end
  for _, key in ipairs(suspended) do
    head[#head + 1] = key
    local _, deadline = urgency_of(key)
    head[#head + 1] = deadline or 0 -- what is gone goes first, so that it is out of the way
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
