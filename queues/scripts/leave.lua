-- leave: a worker says good-bye.
-- KEYS[1]  prefix of the fleet
-- ARGV     worker_id
-- Returns  1 if it was known, else 0
-- Atomic   all of it.

redis.call('HDEL', PREFIX .. 'seen', ARGV[1])
redis.call('HDEL', PREFIX .. 'beats', ARGV[1])
return redis.call('ZREM', PREFIX .. 'expiries', ARGV[1])
