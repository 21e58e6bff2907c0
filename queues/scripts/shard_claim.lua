-- shard_claim: a gateway leases shards that nobody living leases.
-- KEYS[1]  prefix of the gateways
-- ARGV     now_ms, gateway, incarnation, shards
-- Returns  { the shards that it leases now, those that it leased before among them;
--          the living gateways if it leased any anew, else none }
-- Atomic   all of it. A gateway that is not alive, or not this process, gets none.

local now, gateway = now_ms(ARGV[1]), ARGV[2]
local alive, owners = fixed_key('alive'), fixed_key('owners')
local had, is_new = {}, false
local function lives(name)
  local until_ms = redis.call('ZSCORE', alive, name)
  return until_ms and tonumber(until_ms) > now
end
if redis.call('HGET', fixed_key('incarnations'), gateway) ~= ARGV[3] then return { had, {} } end
if not lives(gateway) then return { had, {} } end
for i = 4, #ARGV do
  local owner = redis.call('HGET', owners, ARGV[i])
  if not owner or owner == gateway or not lives(owner) then
    redis.call('HSET', owners, ARGV[i], gateway)
    is_new = is_new or owner ~= gateway
    had[#had + 1] = ARGV[i]
  end
end
local living = {}
if is_new then
  for _, name in ipairs(redis.call('ZRANGE', alive, 0, -1)) do
    if named(name) then living[#living + 1] = name end
  end
end
return { had, living }
