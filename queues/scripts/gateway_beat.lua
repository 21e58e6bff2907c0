-- gateway_beat: a gateway lives for another lease, keeps the shards that it holds, reads the table.
-- KEYS[1]  prefix of the gateways
-- ARGV     now_ms, gateway, incarnation, '1' at its first beat, ttl_ms, an id for a new table,
--          the shards that it holds
-- Returns  { 1, or 0 when another process goes by this name; 1 when the others have to read the
--          table anew; table id; age of the table in ms; the living gateways; those of them that
--          have less than half a lease left, so that a beat of theirs is missing;
--          shard, owner, shard, owner, ... }
-- Atomic   all of it. The dead leave first. A first beat takes the name over from whoever had it.
--          A shard that is held is claimed unless somebody living leases it: after a flush every
--          gateway finds its own again. Nobody lives for longer than two leases from now, whatever
--          stands there: a gateway that lives beats again.

local now, gateway, incarnation = now_ms(ARGV[1]), ARGV[2], ARGV[3]
local alive, incarnations = fixed_key('alive'), fixed_key('incarnations')
local owners, table_key = fixed_key('owners'), fixed_key('table')
local OWNERS_MAX, OWNERS_BYTES_MAX = 10000, 16777216
local GATEWAYS_MAX = 1000
local id, born = short_field(table_key, 'id', 32), number(short_field(table_key, 'born', 15))
if redis.call('ZCARD', alive) > GATEWAYS_MAX then drop('gateway', alive) end
if redis.call('HLEN', incarnations) > GATEWAYS_MAX then drop('gateway', incarnations) end
if not (id and string.find(id, '^%x+$') and born and born <= now) then
  if redis.call('EXISTS', table_key) == 1 then drop('gateway_table') end
  id, born = ARGV[6], now
  redis.call('HSET', table_key, 'id', id, 'born', now)
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', alive, '-inf', now)) do
  redis.call('ZREM', alive, gone)
  redis.call('HDEL', incarnations, gone)
end
local latest = now + 2 * tonumber(ARGV[5])
for _, far in ipairs(redis.call('ZRANGEBYSCORE', alive, '(' .. latest, '+inf')) do
  redis.call('ZADD', alive, latest, far)
end
local living = {}
for _, name in ipairs(redis.call('ZRANGE', alive, 0, -1)) do
  if named(name) then living[#living + 1] = name else
    drop('gateway')
    redis.call('ZREM', alive, name)
    redis.call('HDEL', incarnations, name)
  end
end
if not whole_hash(owners, OWNERS_MAX, OWNERS_BYTES_MAX) then drop('shard_lease', owners) end
local known = short_field(incarnations, gateway, 32)
local mine = ARGV[4] == '1' or not known or known == incarnation
local changed = 0
if mine then
  if not redis.call('ZSCORE', alive, gateway) then
    living[#living + 1] = gateway
    changed = 1
  end
  redis.call('ZADD', alive, now + tonumber(ARGV[5]), gateway)
  redis.call('HSET', incarnations, gateway, incarnation)
  for i = 7, #ARGV do
    local owner = redis.call('HGET', owners, ARGV[i])
    if not owner or not redis.call('ZSCORE', alive, owner) then
      redis.call('HSET', owners, ARGV[i], gateway)
      changed = 1
    end
  end
end
local late = redis.call('ZRANGEBYSCORE', alive, '-inf', '(' .. now + tonumber(ARGV[5]) / 2)
local leased = {}
for shard, owner in each_pair(redis.call('HGETALL', owners)) do
  if #shard <= 9 and string.find(shard, '^%d+$') and named(owner) then
    leased[#leased + 1] = shard
    leased[#leased + 1] = owner
  else
    drop('shard_lease')
    redis.call('HDEL', owners, shard)
  end
end
return { mine and 1 or 0, changed, id, now - born, living, late, leased }
