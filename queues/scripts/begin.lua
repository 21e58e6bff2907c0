-- begin: a claimed item is begun now, so that the end of its holder is counted against it.
-- KEYS[1]  prefix of the queue
-- ARGV     for each claim: key, token
-- Returns  for each claim: 1, or 0 when the token no longer holds the item (nothing changes)
-- Atomic   over the whole batch. Whatever ends the claim ends the mark. The claim that was lost before
--          is on the ledger by now, and is forgotten.

local results = {}
for i = 1, #ARGV, 2 do
  local held = holds(ARGV[i], ARGV[i + 1])
  if held then
    redis.call('HSET', item_key(ARGV[i]), 'begun', 1)
    redis.call('HDEL', item_key(ARGV[i]), 'lost', 'lost_at')
  end
  results[#results + 1] = held and 1 or 0
end
return results
