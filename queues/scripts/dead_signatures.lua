-- dead_signatures: how many items are dead by error signature.
-- KEYS[1]  prefix of the queue
-- ARGV     none
-- Returns  signature, count, signature, count, ...
-- Atomic   one moment. Too many to be read are counted anew with the next deaths.

local SIGNATURES_MAX, BYTES_MAX = 10000, 16777216
local counts = whole_hash(PREFIX .. 'dead-signatures', SIGNATURES_MAX, BYTES_MAX)
if counts then return counts end
drop('dead_signature', PREFIX .. 'dead-signatures')
return {}
