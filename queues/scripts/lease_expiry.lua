-- Put behind lease_common.lua in front of the scripts that end what has expired before their step.

-- What has no place among the expiries would be held for ever.
local function forget_unplaced(hash)
  if redis.call('HLEN', fixed_key(hash)) == redis.call('ZCARD', fixed_key('expiries')) then return end
  for _, holder in ipairs(redis.call('HKEYS', fixed_key(hash))) do
    if not redis.call('ZSCORE', fixed_key('expiries'), holder) then
      drop('lease')
      redis.call('HDEL', fixed_key(hash), holder)
    end
  end
end

local function forget_expired(now)
  local expiries, beyond = fixed_key('expiries'), '(' .. whole(now + TIME_MS_MAX)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', expiries, '-inf', now)) do forget(gone) end
  for _, far in ipairs(redis.call('ZRANGEBYSCORE', expiries, beyond, '+inf')) do
    drop('lease')
    forget(far)
  end
  forget_unplaced('holds')
  forget_unplaced('tokens')
  for rank = 0, LAST_CLASS do
    redis.call('ZREMRANGEBYSCORE', waiting_key(rank), '-inf', now)
    redis.call('ZREMRANGEBYSCORE', waiting_key(rank), beyond, '+inf')
  end
end
