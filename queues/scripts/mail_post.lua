-- mail_post: an entry is put behind those that wait in a shard's mailbox.
-- KEYS[1]  prefix of the shard
-- ARGV     most entries, an id for a new mailbox, body
-- Returns  1, or 0 when there is no room
-- Atomic   all of it. A mailbox whose entries are numbered beyond the clock is given up with all
--          that is in it: nobody who reads it in order would find what comes later.

local mail, mailbox = fixed_key('mail'), fixed_key('mailbox')
if redis.call('XLEN', mail) >= tonumber(ARGV[1]) then return 0 end
local id = short_text(mailbox, 16)
if not (id and #id == 16 and string.find(id, '^%x+$')) then
  if redis.call('EXISTS', mailbox) == 1 then drop('mailbox') end
  id = ARGV[2]
  redis.call('SET', mailbox, id)
end
local entry = try('XADD', mail, '*', 'mailbox', id, 'body', ARGV[3])
if not entry or tonumber(string.match(entry, '^%d+')) > server_ms() + TIME_MS_MAX then
  drop('mailbox', mail)
  redis.call('SET', mailbox, ARGV[2])
  redis.call('XADD', mail, '*', 'mailbox', ARGV[2], 'body', ARGV[3])
end
return 1
