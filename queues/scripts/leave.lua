-- leave: a worker says good-bye.
-- KEYS[1]  prefix of the fleet
-- ARGV     worker_id
-- Returns  1 if it was known, else 0
-- Atomic   all of it.

redis.call('HDEL', fixed_key('seen'), ARGV[1])
redis.call('HDEL', fixed_key('beats'), ARGV[1])
return redis.call('ZREM', fixed_key('expiries'), ARGV[1])
