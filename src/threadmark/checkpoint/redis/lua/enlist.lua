-- Enter a member into an index, or enter it anew. KEYS: the index. ARGV: the member.
local now = redis.call('TIME')
redis.call('ZADD', KEYS[1], now[1] * 1000000 + now[2], ARGV[1])
return 1
