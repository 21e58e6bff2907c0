-- pause: nothing more of the queue, or of one priority, is claimed.
-- KEYS[1]  prefix of the queue
-- ARGV     'all' or a rank
-- Returns  1 if it was not paused, else 0
-- Atomic   all of it. What is in flight goes on, and so does enqueuing.

return redis.call('HSETNX', fixed_key('paused'), ARGV[1], '1')
