-- Enter a member into an index, or enter it anew. KEYS: the index. ARGV: the member, and after how many milliseconds
-- the index goes when nothing else is entered; empty for never.
local now = redis.call('TIME')
redis.call('ZADD', KEYS[1], now[1] * 1000000 + now[2], ARGV[1])
if ARGV[2] ~= '' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
