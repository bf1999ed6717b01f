-- The members of an index that nobody looked at for longest, with now as the time of that. KEYS: the index.
-- ARGV: how many, and how many milliseconds ago at least.
local now = redis.call('TIME')
local micros = now[1] * 1000000 + now[2]
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', micros - ARGV[2] * 1000, 'LIMIT', 0, ARGV[1])
for i = 1, #found do
  redis.call('ZADD', KEYS[1], micros, found[i])
end
return found
