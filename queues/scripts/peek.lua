-- peek: a page of the items in one state.
-- KEYS[1]  prefix of the queue
-- ARGV     state, offset, limit
-- Returns  for each item: { key, attempts so far, flat record, ms at which its state ends or '' }
-- Atomic   one moment. ready: what a claim takes next, paused or not, suspended
--          included, without due retries. suspended: by rank and then in that order. delayed: the
--          first due first. in_flight: the first to expire first. A page ends early before a reply
--          would be too large.

local SETS = { delayed = 'delayed', in_flight = 'in-flight' }
local state, offset, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local function page()
  if SETS[state] then return keys_of(fixed_key(SETS[state]), offset, offset + limit - 1) end
  local all, keys = {}, {}
  if state == 'ready' then
    all = service_order(offset + limit, LAST_RANK, {})
  else
    for rank = 0, LAST_RANK do
      for _, key in ipairs(keys_of(suspended_key(rank), 0, offset + limit - 1)) do
        all[#all + 1] = key
      end
    end
  end
  for i = offset + 1, math.min(offset + limit, #all) do keys[#keys + 1] = all[i] end
  return keys
end

local items = {}
for _, key in ipairs(page()) do
  local record = packed(key) or read(item_key(key))
  if is_full() and #items > 0 then break end
  if record then
    local ends = ''
    if SETS[state] then
      ends = redis.call('ZSCORE', fixed_key(SETS[state]), key)
    end
    items[#items + 1] = { key, tonumber(record.attempt), flattened(record), ends }
  end
end
return items
