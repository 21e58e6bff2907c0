-- acknowledge: finished claims leave the queue; a successor takes the place of its item.
-- KEYS[1]  prefix of the queue
-- ARGV     for each claim: key, token
-- Returns  for each claim: 1, or 0 when the token no longer holds the item (nothing changes)
-- Atomic   over the whole batch.

local keys, results, done, packed_ones, gone = {}, {}, {}, {}, {}
for i = 1, #ARGV, 2 do keys[#keys + 1] = ARGV[i] end
local tokens = tokens_of(keys)
for i, key in ipairs(keys) do
  local item, token, next_causes = item_key(key), tokens[i], nil
  local is_packed = token == ARGV[2 * i]
  if is_packed then
    packed_ones[#packed_ones + 1] = key
  else
    token, next_causes = unpack(try('HMGET', item, 'token', 'next_causes') or {})
  end
  local held = token == ARGV[2 * i]
  if held then
    done[#done + 1] = key
    if next_causes then finish(key, read(item)) else gone[#gone + 1] = item end
  end
  results[i] = held and 1 or 0
end
if #packed_ones > 0 then redis.call('HDEL', fixed_key('claims'), unpack(packed_ones)) end
if #gone > 0 then redis.call('DEL', unpack(gone)) end
if #done > 0 then redis.call('ZREM', fixed_key('in-flight'), unpack(done)) end
wake()
return results
