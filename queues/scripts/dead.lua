-- dead: the dead letter box, oldest death first.
-- KEYS[1]  prefix of the queue
-- ARGV     limit
-- Returns  for each item: { key, attempts made, flat record }
-- Atomic   one moment; changes nothing.

local items = {}
for _, key in ipairs(redis.call('ZRANGE', PREFIX .. 'dead', 0, tonumber(ARGV[1]) - 1)) do
  local record = redis.call('HGETALL', dead_key(key))
  if #record > 0 then
    items[#items + 1] = { key, tonumber(redis.call('HGET', dead_key(key), 'attempt')), record }
  end
end
return items
