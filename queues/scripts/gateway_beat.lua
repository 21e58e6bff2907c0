-- gateway_beat: a gateway lives for another lease, keeps the shards that it holds, reads the table.
-- KEYS[1]  prefix of the gateways
-- ARGV     now_ms, gateway, incarnation, '1' at its first beat, ttl_ms, an id for a new table,
--          the shards that it holds
-- Returns  { 1, or 0 when another process goes by this name; table id; age of the table in ms;
--          the living gateways; shard, owner, shard, owner, ... }
-- Atomic   all of it. The dead leave first. A first beat takes the name over from whoever had it.
--          A shard that is held is claimed unless somebody living leases it: after a flush every
--          gateway finds its own again.

local now, gateway, incarnation = now_ms(ARGV[1]), ARGV[2], ARGV[3]
local alive, incarnations = PREFIX .. 'alive', PREFIX .. 'incarnations'
local owners, table_key = PREFIX .. 'owners', PREFIX .. 'table'
if redis.call('HSETNX', table_key, 'id', ARGV[6]) == 1 then
  redis.call('HSET', table_key, 'born', now)
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', alive, '-inf', now)) do
  redis.call('ZREM', alive, gone)
  redis.call('HDEL', incarnations, gone)
end
local known = redis.call('HGET', incarnations, gateway)
local mine = ARGV[4] == '1' or not known or known == incarnation
if mine then
  redis.call('ZADD', alive, now + tonumber(ARGV[5]), gateway)
  redis.call('HSET', incarnations, gateway, incarnation)
  for i = 7, #ARGV do
    local owner = redis.call('HGET', owners, ARGV[i])
    if not owner or not redis.call('ZSCORE', alive, owner) then
      redis.call('HSET', owners, ARGV[i], gateway)
    end
  end
end
local born = tonumber(redis.call('HGET', table_key, 'born'))
return {
  mine and 1 or 0, redis.call('HGET', table_key, 'id'), now - born,
  redis.call('ZRANGE', alive, 0, -1), redis.call('HGETALL', owners),
}
