-- watch: whether this server does what a fleet needs, and whose the keys of the prefix are.
-- KEYS[1]  prefix of the ledger's room
-- ARGV     id of a ledger or '', its name, for how many ms it is the owner, whether it may become it
-- Returns  the owner as '<id> <name>', '' where there is none
-- Atomic   all of it. Every command that another script or a process sends is used once, on keys
--          that are gone at the end: one that is refused is an error here, before work meets it.

local OWNER_BYTES_MAX = 1024

local function use_every_command()
  local text, set = PREFIX .. 'try:text', PREFIX .. 'try:set'
  local hash, list, stream = PREFIX .. 'try:hash', PREFIX .. 'try:list', PREFIX .. 'try:stream'
  -- First of all a write that needs memory: behind any other write a server lets it pass.
  redis.call('PSETEX', text, 1000, '1')
  redis.call('UNLINK', text, set, hash, list, stream)
  redis.call('SETNX', text, '1')
  redis.call('INCR', text)
  redis.call('INCRBY', text, 1)
  redis.call('SETEX', text, 1, '1')
  redis.call('SET', text, '1')
  redis.call('EXPIRE', text, 1)
  redis.call('GET', text)
  redis.call('GETRANGE', text, 0, 1)
  redis.call('STRLEN', text)
  redis.call('PTTL', text)
  redis.call('EXISTS', text)
  redis.call('TYPE', text)
  redis.call('TIME')
  redis.call('ZADD', set, 1, 'a', 2, 'b')
  redis.call('ZCARD', set)
  redis.call('ZCOUNT', set, 1, 2)
  redis.call('ZSCORE', set, 'a')
  redis.call('ZRANK', set, 'a')
  redis.call('ZRANGE', set, 0, -1)
  redis.call('ZRANGEBYSCORE', set, 1, 2)
  redis.call('ZREM', set, 'a')
  redis.call('ZREMRANGEBYRANK', set, 0, 0)
  redis.call('ZREMRANGEBYSCORE', set, 1, 2)
  redis.call('HSET', hash, 'a', '1')
  redis.call('HSETNX', hash, 'a', '1')
  redis.call('HINCRBY', hash, 'a', 1)
  redis.call('HGET', hash, 'a')
  redis.call('HMGET', hash, 'a')
  redis.call('HGETALL', hash)
  redis.call('HKEYS', hash)
  redis.call('HLEN', hash)
  redis.call('HSTRLEN', hash, 'a')
  redis.call('HEXISTS', hash, 'a')
  redis.pcall('MEMORY', 'USAGE', hash) -- a server that does not weigh is believed
  redis.call('HDEL', hash, 'a')
  redis.call('RPUSH', list, '1')
  redis.call('LTRIM', list, -1, -1)
  redis.call('LLEN', list)
  redis.call('LPOP', list)
  local id = redis.call('XADD', stream, '*', 'a', '1')
  redis.call('XLEN', stream)
  redis.call('XRANGE', stream, '-', '+')
  redis.call('XDEL', stream, id)
  redis.call('DEL', text, set, hash, list, stream)
end

use_every_command()
local owner, name = short_text(fixed_key('owner'), OWNER_BYTES_MAX), fixed_key('owner')
local id = owner and string.match(owner, '^(%x+) ')
if not id and redis.call('EXISTS', name) == 1 then drop('owner', name) end
if ARGV[1] ~= '' and ARGV[4] == '1' and (not id or id == ARGV[1]) then
  owner, id = ARGV[1] .. ' ' .. ARGV[2], ARGV[1]
  redis.call('SET', name, owner, 'PX', ARGV[3])
end
return id and owner or ''
