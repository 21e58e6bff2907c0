-- mail_set_aside: an entry leaves its mailbox and is kept beside it.
-- KEYS[1]  prefix of the shard
-- ARGV     stream id of the entry, most entries that are kept beside
-- Returns  1, or 0 where it is not there or there is no room; then it is gone all the same
-- Atomic   all of it.

local found = redis.call('XRANGE', fixed_key('mail'), ARGV[1], ARGV[1])
redis.call('XDEL', fixed_key('mail'), ARGV[1])
redis.call('HDEL', fixed_key('taken'), ARGV[1])
if #found == 0 or redis.call('HLEN', fixed_key('aside')) >= tonumber(ARGV[2]) then return 0 end
for i = 1, #found[1][2], 2 do
  if found[1][2][i] == 'body' then
    redis.call('HSET', fixed_key('aside'), ARGV[1], found[1][2][i + 1])
  end
end
return 1
