-- renew: claims stay invisible for longer, counted from now.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, visibility_ms, then for each claim: key, token
-- Returns  for each claim: 1, or 0 when the token no longer holds the item, or the item was
--          cancelled (nothing changes)
-- Atomic   over the whole batch. A claim that has expired but was not reaped yet is saved.

local expires, keys, flying, results = now_ms(ARGV[1]) + tonumber(ARGV[2]), {}, {}, {}
for i = 3, #ARGV, 2 do keys[#keys + 1] = ARGV[i] end
local tokens = tokens_of(keys)
for i, key in ipairs(keys) do
  local token, kept = ARGV[2 * i + 2], tokens[i] == ARGV[2 * i + 2]
  if not kept then
    local seen = try('HMGET', item_key(key), 'token', 'cancelled') or {}
    kept = seen[1] == token and not seen[2]
  end
  if kept then flying[#flying + 1], flying[#flying + 2] = expires, key end
  results[i] = kept and 1 or 0
end
if #flying > 0 then redis.call('ZADD', fixed_key('in-flight'), unpack(flying)) end
return results
