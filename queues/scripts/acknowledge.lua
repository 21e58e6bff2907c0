-- acknowledge: finished claims leave the queue; a successor takes the place of its item.
-- KEYS[1]  prefix of the queue
-- ARGV     for each claim: key, token
-- Returns  for each claim: 1, or 0 when the token no longer holds the item (nothing changes)
-- Atomic   over the whole batch.

local results, done, gone = {}, {}, {}
for i = 1, #ARGV, 2 do
  local key, item = ARGV[i], item_key(ARGV[i])
  local seen = try('HMGET', item, 'token', 'next_causes') or {}
  local held = seen[1] == ARGV[i + 1]
  if held then
    done[#done + 1] = key
    if seen[2] then finish(key, read(item)) else gone[#gone + 1] = item end
  end
  results[#results + 1] = held and 1 or 0
end
if #gone > 0 then redis.call('DEL', unpack(gone)) end
if #done > 0 then redis.call('ZREM', fixed_key('in-flight'), unpack(done)) end
wake()
return results
