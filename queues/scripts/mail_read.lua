-- mail_read: the entries of a shard's mailbox behind a place, as many as fit into one reply.
-- KEYS[1]  prefix of the shard
-- ARGV     '-' for the beginning, or '(' and the stream id of the place; most entries; most bytes
--          of an entry; most bytes of all of them, but for the last
-- Returns  for each entry: { stream id, id of its mailbox, body, how often it was taken, how many ms
--          ago it was put there }
-- Atomic   one moment. An entry that is longer than any gateway writes leaves the mailbox.

local mail, taken = fixed_key('mail'), fixed_key('taken')
local entries, after, room, now = {}, ARGV[1], tonumber(ARGV[4]), server_ms()
while #entries < tonumber(ARGV[2]) and room > 0 do
  -- One at a time: no command tells how long an entry is.
  local entry = redis.call('XRANGE', mail, after, '+', 'COUNT', 1)[1]
  if not entry then break end
  local id, fields, bytes = entry[1], {}, 0
  for name, value in each_pair(entry[2]) do
    fields[name], bytes = value, bytes + #name + #value
  end
  if bytes > tonumber(ARGV[3]) then
    drop('mail')
    redis.call('XDEL', mail, id)
    redis.call('HDEL', taken, id)
  else
    room = room - bytes
    local count = number(short_field(taken, id, 3)) or 0
    local age_ms = now - tonumber(string.match(id, '^%d+'))
    entries[#entries + 1] = { id, fields.mailbox or '', fields.body or '', count, age_ms }
  end
  after = '(' .. id
end
return entries
