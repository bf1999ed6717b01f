-- When members were entered into an index, nothing for those that are not in it. KEYS: the index. ARGV: members.
local found = {}
for i = 1, #ARGV do
  found[i] = redis.call('ZSCORE', KEYS[1], ARGV[i])
end
return found
