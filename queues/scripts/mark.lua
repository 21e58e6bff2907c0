-- mark: a relay serves the queue from now on.
-- KEYS[1]  prefix of the queue
-- ARGV     its mark, the mark that it has read, '' for none
-- Returns  1, or 0 where the queue has another mark than was read
-- Atomic   all of it. Who was replaced after it had read the mark does not put its own back.

if redis.call('GETRANGE', fixed_key('mark'), 0, 31) ~= ARGV[2] then return 0 end
redis.call('SET', fixed_key('mark'), ARGV[1])
return 1
