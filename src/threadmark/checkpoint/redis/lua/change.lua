-- One transaction on one thread: all of it, or nothing when something is not as it was read.
-- KEYS: its rows, its order. ARGV: the transaction's stamp, the time to live (milliseconds, or empty), the number of
-- expectations, those, then what to do. Answers 'stored', or what was in the way.
local rows, order = KEYS[1], KEYS[2]
local stamp, last = ARGV[1], redis.call('HGET', rows, 'l') or ''
for at = 1, #last, 8 do
  if string.sub(last, at, at + 7) == stamp then
    return 'stored' -- it came through before, and only the answer was lost
  end
end

local expect = {}

-- The thread's identity, empty for no thread.
function expect.thread(i)
  return (redis.call('HGET', rows, 'k') or '') == ARGV[i], i + 1
end

-- The stamp of the last change of any kind.
function expect.last(i)
  return string.sub(last, 1, 8) == ARGV[i], i + 1
end

-- The stamp of the last removal.
function expect.removal(i)
  return (redis.call('HGET', rows, 'g') or '') == ARGV[i], i + 1
end

-- The name of a namespace's newest checkpoint, empty for none.
function expect.newest(i)
  local found = redis.call(
    'ZREVRANGEBYLEX', order, '(' .. ARGV[i] .. '\255\255', '[' .. ARGV[i] .. '\255', 'LIMIT', 0, 1)[1]
  return (found or '') == ARGV[i + 1], i + 2
end

-- The SHA-1 of a field, empty for none.
function expect.field(i)
  local found = redis.call('HGET', rows, ARGV[i])
  return (found and redis.sha1hex(found) or '') == ARGV[i + 1], i + 2
end

-- The SHA-1 of the body of a checkpoint's row: what stands behind its seven columns.
function expect.body(i)
  local found, from = redis.call('HGET', rows, 'c' .. ARGV[i]), 0
  if not found then
    return false
  end
  for _ = 1, 7 do
    from = string.find(found, '\255', from + 1, true)
  end
  return redis.sha1hex(string.sub(found, from + 1)) == ARGV[i + 1], i + 2
end

local i = 4
for _ = 1, tonumber(ARGV[3]) do
  local what, met = ARGV[i], nil
  met, i = expect[what](i + 1)
  if not met then
    return what
  end
end

local removed = false
local act = {}

-- Make the thread, over what an eviction may have left. Without need nothing is removed: it would be a first write that
-- a server without memory allows, and with it all that follow.
function act.make(i)
  if redis.call('ZCARD', order) > 0 then
    redis.call('UNLINK', order)
  end
  if redis.call('HLEN', rows) > 0 then
    redis.call('UNLINK', rows)
  end
  last = ''
  redis.call('HSET', rows, 'k', ARGV[i])
  return i + 1
end

-- Fields and their contents.
function act.set(i)
  local upto = i + 2 * tonumber(ARGV[i])
  for from = i + 1, upto, 1000 do
    redis.call('HSET', rows, unpack(ARGV, from, math.min(from + 999, upto)))
  end
  return upto + 1
end

-- Fields and their contents, where they are not there.
function act.add(i)
  local upto = i + 2 * tonumber(ARGV[i])
  for at = i + 1, upto, 2 do
    redis.call('HSETNX', rows, ARGV[at], ARGV[at + 1])
  end
  return upto + 1
end

function act.unset(i)
  local upto = i + tonumber(ARGV[i])
  for from = i + 1, upto, 1000 do
    redis.call('HDEL', rows, unpack(ARGV, from, math.min(from + 999, upto)))
  end
  removed = true
  return upto + 1
end

-- A checkpoint's row, and whether it is seen.
function act.checkpoint(i)
  local name = ARGV[i]
  redis.call('HSET', rows, 'c' .. name, ARGV[i + 1])
  if ARGV[i + 2] == '1' then
    redis.call('HSET', rows, 'o', '')
    redis.call('ZADD', order, 0, name)
  else
    redis.call('ZREM', order, name)
  end
  return i + 3
end

-- A task's row.
function act.task(i)
  local name, id = ARGV[i], ARGV[i + 1]
  if redis.call('HSET', rows, 't' .. name .. '\255' .. id, ARGV[i + 2]) == 1 then
    redis.call('HSET', rows, 'n' .. name, (redis.call('HGET', rows, 'n' .. name) or '') .. id .. '\255')
  end
  return i + 3
end

function act.drop_task(i)
  local name, left = ARGV[i], ''
  for id in string.gmatch(redis.call('HGET', rows, 'n' .. name) or '', '([^\255]*)\255') do
    if id ~= ARGV[i + 1] then
      left = left .. id .. '\255'
    end
  end
  redis.call('HDEL', rows, 't' .. name .. '\255' .. ARGV[i + 1], left == '' and 'n' .. name or '')
  if left ~= '' then
    redis.call('HSET', rows, 'n' .. name, left)
  end
  removed = true
  return i + 2
end

-- A checkpoint and its tasks.
function act.drop(i)
  local name = ARGV[i]
  for id in string.gmatch(redis.call('HGET', rows, 'n' .. name) or '', '([^\255]*)\255') do
    redis.call('HDEL', rows, 't' .. name .. '\255' .. id)
  end
  redis.call('HDEL', rows, 'c' .. name, 'n' .. name)
  redis.call('ZREM', order, name)
  removed = true
  return i + 1
end

while i <= #ARGV do
  if ARGV[i] == 'drop_thread' then
    redis.call('UNLINK', rows, order)
    return 'stored'
  end
  i = act[ARGV[i]](i + 1)
end

if removed then
  redis.call('HSET', rows, 'g', stamp)
  if redis.call('EXISTS', order) == 0 then
    redis.call('HDEL', rows, 'o')
  end
end
redis.call('HSET', rows, 'l', stamp .. string.sub(last, 1, 120)) -- sixteen of them
if ARGV[2] ~= '' then
  local now = redis.call('TIME')
  local at = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[2]
  redis.call('PEXPIREAT', rows, at)
  redis.call('PEXPIREAT', order, at)
end
return 'stored'
