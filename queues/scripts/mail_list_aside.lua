-- mail_list_aside: what was set aside of a shard.
-- KEYS[1]  prefix of the shard
-- ARGV     most entries that are kept beside
-- Returns  for each entry: { stream id, bytes }
-- Atomic   one moment. No body is read.

local aside, kept = fixed_key('aside'), {}
if redis.call('HLEN', aside) > tonumber(ARGV[1]) then drop('aside', aside) end
for _, id in ipairs(redis.call('HKEYS', aside)) do
  if #id <= 40 and string.find(id, '^%d+-%d+$') then
    kept[#kept + 1] = { id, redis.call('HSTRLEN', aside, id) }
  else
    drop('aside')
    redis.call('HDEL', aside, id)
  end
end
return kept
