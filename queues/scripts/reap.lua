-- reap: claims whose visibility has ended wait again, their successors merged into them, but for
--       those of what is worn out.
-- KEYS[1]  prefix of the queue
-- ARGV     now_ms, limit
-- Returns  how many claims ended
-- Atomic   over one call. A claim ends at its deadline, not after it. What was
--          cancelled leaves instead. What had been begun counts one more end; of what had not, the
--          delivery was no attempt (decision queues/0041).

local flying, now = fixed_key('in-flight'), now_ms(ARGV[1])
local beyond = '(' .. string.format('%.0f', now + TIME_MS_MAX)
-- What would end later than anything may was put there by nobody, and ends now.
for _, set in ipairs({ 'in-flight', 'delayed' }) do
  local far = redis.call('ZRANGEBYSCORE', fixed_key(set), beyond, '+inf', 'LIMIT', 0, ARGV[2])
  for _, key in ipairs(far) do
    drop('time')
    redis.call('ZADD', fixed_key(set), now, key)
  end
end
local ended = redis.call('ZRANGEBYSCORE', flying, '-inf', now, 'LIMIT', 0, ARGV[2])
for _, key in ipairs(ended) do
  unpack_item(key)
  local record = read(item_key(key))
  redis.call('ZREM', flying, key)
  if record and record.cancelled then
    finish(key, record)
  elseif record then
    local was_begun = record.begun and 1 or 0
    record.ends = tostring((number(record.ends) or 0) + was_begun)
    record.lost, record.lost_at = record.token, now
    record.attempt = tostring(math.max(0, tonumber(record.attempt) - (1 - was_begun)))
    absorb_successor(record)
    let_wait(key, record)
  end
end
-- The end of a claim that is in no set would be seen by nobody.
local claims = fixed_key('claims')
if redis.call('HLEN', claims) > redis.call('ZCARD', flying) then
  for _, key in ipairs(redis.call('HKEYS', claims)) do
    if not redis.call('ZSCORE', flying, key) then redis.call('HDEL', claims, key) end
  end
end
wake()
return #ended
