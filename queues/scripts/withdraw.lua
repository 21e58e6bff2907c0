-- withdraw: items that wait leave, so that who asks for them again says where they wait.
-- KEYS[1]  prefix of the queue
-- ARGV     the keys
-- Returns  for each key: withdrawn | running (it is in flight, and stays) | unknown
-- Atomic   over the whole list. The causes are forgotten: asked for again, they are new.
-- Why      an item that is asked for at another priority only becomes more urgent; what is to
--          become less urgent begins anew.

local results = {}
for _, key in ipairs(ARGV) do
  unpack_item(key)
  local live, outcome = read(item_key(key)), 'unknown'
  if live and live.state == 'in_flight' then
    outcome = 'running'
  elseif live then
    local set = live.state == 'delayed' and 'delayed' or live.state .. ':' .. live.rank
    redis.call('ZREM', fixed_key(set), key)
    finish(key, live)
    outcome = 'withdrawn'
  end
  results[#results + 1] = outcome
end
return results
