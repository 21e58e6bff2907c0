-- Put behind lease_common.lua in front of the scripts that end what has expired before their step.

-- What has no place among the expiries would be held for ever.
local function forget_unplaced(hash)
  if redis.call('HLEN', PREFIX .. hash) == redis.call('ZCARD', PREFIX .. 'expiries') then return end
  for _, holder in ipairs(redis.call('HKEYS', PREFIX .. hash)) do
    if not redis.call('ZSCORE', PREFIX .. 'expiries', holder) then
      drop('lease')
      redis.call('HDEL', PREFIX .. hash, holder)
    end
  end
end

local function forget_expired(now)
  local expiries, beyond = PREFIX .. 'expiries', '(' .. whole(now + TIME_MS_MAX)
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
