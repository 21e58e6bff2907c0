-- beat: a worker says that it lives, and what it has done.
-- KEYS[1]  prefix of the fleet
-- ARGV     now_ms, worker_id, ttl_ms, record
-- Returns  seen_at_ms
-- Atomic   all of it.

local now = now_ms(ARGV[1])
redis.call('ZADD', fixed_key('expiries'), now + tonumber(ARGV[3]), ARGV[2])
redis.call('HSET', fixed_key('seen'), ARGV[2], now)
redis.call('HSET', fixed_key('beats'), ARGV[2], ARGV[4])
return now
