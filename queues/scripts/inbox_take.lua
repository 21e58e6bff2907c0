-- inbox_take: the first notes to a gateway leave its inbox, as many as fit into one reply.
-- KEYS[1]  prefix of the gateway
-- ARGV     most notes; most bytes of a note; most bytes of all of them, but for the last
-- Returns  the notes in order
-- Atomic   all of it. A note that is longer than any gateway writes is dropped.

local inbox, notes, room = fixed_key('inbox'), {}, tonumber(ARGV[3])
while #notes < tonumber(ARGV[1]) and room > 0 do
  local note = redis.call('LPOP', inbox)
  if not note then break end
  if #note > tonumber(ARGV[2]) then drop('note') else
    notes[#notes + 1] = note
    room = room - #note
  end
end
return notes
