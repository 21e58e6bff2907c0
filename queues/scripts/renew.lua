-- renew: claims stay invisible for longer, counted from now.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, visibility_ms, then for each claim: key, token
-- Returns  for each claim: 1, or 0 when the token no longer holds the item, or the item was
--          cancelled (nothing changes)
-- Atomic   over the whole batch. A claim that has expired but was not reaped yet is saved.

local expires, results = now_ms(ARGV[1]) + tonumber(ARGV[2]), {}
for i = 3, #ARGV, 2 do
  local seen = try('HMGET', item_key(ARGV[i]), 'token', 'cancelled') or {}
  local kept = seen[1] == ARGV[i + 1] and not seen[2]
  if kept then redis.call('ZADD', fixed_key('in-flight'), expires, ARGV[i]) end
  results[#results + 1] = kept and 1 or 0
end
return results
