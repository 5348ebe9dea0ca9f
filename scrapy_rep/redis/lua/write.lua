-- KEYS: a snapshot. ARGV: milliseconds for which it is kept, its fields and what is in them
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
