-- A page of an index. KEYS: the index. ARGV: a cursor. Answers the next cursor, and members with when they were entered
-- and whether that is longer ago than a transaction can last.
local now = redis.call('TIME')
local old = now[1] * 1000000 + now[2] - 3600000000
local page = redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', 1000)
local found = {}
for i = 1, #page[2], 2 do
  local entered = redis.call('ZSCORE', KEYS[1], page[2][i])
  if entered then
    found[#found + 1] = { page[2][i], entered, tonumber(entered) < old and 1 or 0 }
  end
end
return { page[1], found }
