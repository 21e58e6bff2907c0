-- shard_release: a gateway gives shards up; one that leaves gives all of them up and is gone.
-- KEYS[1]  prefix of the gateways
-- ARGV     gateway, incarnation, '1' to leave, shards
-- Returns  the gateways that are left
-- Atomic   all of it. Nothing happens to a name that another process goes by.

local gateway, owners = ARGV[1], fixed_key('owners')
local alive, incarnations = fixed_key('alive'), fixed_key('incarnations')
if redis.call('HGET', incarnations, gateway) == ARGV[2] then
  local shards = {}
  for i = 4, #ARGV do shards[#shards + 1] = ARGV[i] end
  if ARGV[3] == '1' then
    shards = redis.call('HKEYS', owners)
    redis.call('ZREM', alive, gateway)
    redis.call('HDEL', incarnations, gateway)
  end
  for _, shard in ipairs(shards) do
    if redis.call('HGET', owners, shard) == gateway then redis.call('HDEL', owners, shard) end
  end
end
local living = {}
for _, name in ipairs(redis.call('ZRANGE', alive, 0, -1)) do
  if named(name) then living[#living + 1] = name end
end
return living
