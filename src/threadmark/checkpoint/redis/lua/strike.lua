-- Take members off an index. KEYS: the index. ARGV: members, each followed by when it must have been entered, or by
-- nothing when that does not matter.
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' or redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return 1
