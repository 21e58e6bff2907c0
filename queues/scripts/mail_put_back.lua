-- mail_put_back: an entry that was set aside is put behind those that wait in its mailbox.
-- KEYS[1]  prefix of the shard
-- ARGV     its stream id when it was set aside, an id for a new mailbox, its body as it is now
-- Returns  1, or 0 where it is not there
-- Atomic   all of it.

if redis.call('HDEL', fixed_key('aside'), ARGV[1]) == 0 then return 0 end
redis.call('SETNX', fixed_key('mailbox'), ARGV[2])
redis.call('XADD', fixed_key('mail'), '*', 'mailbox', redis.call('GET', fixed_key('mailbox')), 'body', ARGV[3])
return 1
