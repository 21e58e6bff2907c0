-- mend: keys of other types than they should have are dropped.
-- KEYS[1]  prefix
-- ARGV     for each key: its name behind the prefix, its type
-- Returns  1
-- Atomic   all of it.

for i = 1, #ARGV, 2 do expect_type(ARGV[i], ARGV[i + 1]) end
return 1
