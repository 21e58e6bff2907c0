-- peek: what a claim would take next, without due retries.
-- KEYS[1]  prefix of the queue
-- ARGV     limit
-- Returns  for each item: { key, attempt so far, flat record }
-- Atomic   one moment; changes nothing.

local items = {}
for _, key in ipairs((earliest(tonumber(ARGV[1])))) do
  local record = redis.call('HGETALL', item_key(key))
  if #record > 0 then
    items[#items + 1] = { key, tonumber(redis.call('HGET', item_key(key), 'attempt')), record }
  end
end
return items
