-- dead: a page of the dead letter box, or of one error signature, oldest death first.
-- KEYS[1]  prefix of the queue
-- ARGV     error signature, or '' for all; offset, limit
-- Returns  for each item: { key, attempts made, flat record }
-- Atomic   one moment. A key under which nothing is dead leaves the box. A page ends early before a
--          reply would be too large.

local set = ARGV[1] == '' and 'dead' or 'dead-of:' .. ARGV[1]
local first = tonumber(ARGV[2])
local items = {}
expect_type(set, 'zset')
for _, key in ipairs(keys_of(PREFIX .. set, first, first + tonumber(ARGV[3]) - 1)) do
  local record = flat_of(dead_key(key), 'dead_item')
  if is_full() and #items > 0 then break end
  if #record > 0 then
    items[#items + 1] = { key, tonumber(redis.call('HGET', dead_key(key), 'attempt')), record }
  else
    redis.call('ZREM', PREFIX .. set, key)
    redis.call('ZREM', PREFIX .. 'dead', key)
  end
end
return items
