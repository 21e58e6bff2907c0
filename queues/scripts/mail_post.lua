-- mail_post: an entry is put behind those that wait in a shard's mailbox.
-- KEYS[1]  prefix of the shard
-- ARGV     most entries, an id for a new mailbox, body
-- Returns  1, or 0 when there is no room
-- Atomic   all of it.

local mail = PREFIX .. 'mail'
if redis.call('XLEN', mail) >= tonumber(ARGV[1]) then return 0 end
redis.call('SETNX', PREFIX .. 'mailbox', ARGV[2])
redis.call('XADD', mail, '*', 'mailbox', redis.call('GET', PREFIX .. 'mailbox'), 'body', ARGV[3])
return 1
