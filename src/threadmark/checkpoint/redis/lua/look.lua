-- Reads of one thread, all of one moment. KEYS: its rows, its order. ARGV: the time to live to renew (milliseconds, or
-- empty), then questions. Answers: {} when there is no thread, else {identity, last removal, last change, answers...}.
local rows, order = KEYS[1], KEYS[2]
local known = redis.call('HMGET', rows, 'k', 'g', 'l')
if not known[1] then
  return {}
end
if ARGV[1] ~= '' then
  local now = redis.call('TIME')
  local at = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[1]
  redis.call('PEXPIREAT', rows, at)
  redis.call('PEXPIREAT', order, at)
end

local function fields(first, last)
  local found = {}
  for from = first, last, 1000 do
    local some = redis.call('HMGET', rows, unpack(ARGV, from, math.min(from + 999, last)))
    for i = 1, #some do
      found[#found + 1] = some[i]
    end
  end
  return found
end

local function tasks(name)
  local found = {}
  local ids = redis.call('HGET', rows, 'n' .. name)
  if ids then
    for id in string.gmatch(ids, '([^\255]*)\255') do
      found[#found + 1] = id
      found[#found + 1] = redis.call('HGET', rows, 't' .. name .. '\255' .. id)
    end
  end
  return found
end

local function checkpoint(name)
  return { redis.call('HGET', rows, 'c' .. name), tasks(name) }
end

local function newest(ns)
  local range = { '(' .. ns .. '\255\255', '[' .. ns .. '\255' }
  local found = redis.call('ZREVRANGEBYLEX', order, range[1], range[2], 'LIMIT', 0, 1)[1]
  if not found and redis.call('HEXISTS', rows, 'o') == 1 and redis.call('EXISTS', order) == 0 then
    return redis.error_reply('DAMAGED the order of the checkpoints is gone')
  end
  return found or false, redis.call('ZLEXCOUNT', order, range[2], range[1])
end

local ask = {}

-- The fields with these names.
function ask.fields(i)
  local last = i + tonumber(ARGV[i])
  return fields(i + 1, last), last + 1
end

-- The name of a namespace's newest checkpoint.
function ask.newest(i)
  return newest(ARGV[i]), i + 1
end

-- A namespace's newest checkpoint: its name, its row, its tasks.
function ask.head(i)
  local name = newest(ARGV[i])
  if type(name) ~= 'string' then
    return name, i + 1
  end
  local found = checkpoint(name)
  return { name, found[1], found[2] }, i + 1
end

-- The tasks of a checkpoint.
function ask.tasks(i)
  return tasks(ARGV[i]), i + 1
end

-- Names of checkpoints, falling, between two bounds.
function ask.names(i)
  local found = redis.call('ZREVRANGEBYLEX', order, ARGV[i], ARGV[i + 1], 'LIMIT', 0, ARGV[i + 2])
  return found, i + 3
end

local function line(ns, id, limit)
  local found, met = {}, {}
  while limit ~= 0 and not met[id] do
    met[id] = true
    local name = ns .. '\255' .. id
    local one = checkpoint(name)
    if not one[1] then
      break
    end
    found[#found + 1] = { name, one[1], one[2] }
    limit = limit - 1
    id = string.sub(one[1], 1, string.find(one[1], '\255', 1, true) - 1)
    if id == '\254' then
      break
    end
  end
  return found
end

-- Adds to a list the segments whose keys stand at a place of a body, one after the other, each behind its field.
local function named(body, first, count, found, met)
  for at = first, first + 16 * count - 1, 16 do
    local field = 's' .. string.sub(body, at, at + 15)
    if not met[field] then
      met[field] = true
      local data = redis.call('HGET', rows, field)
      if data then
        found[#found + 1] = field
        found[#found + 1] = data
      end
    end
  end
end

-- A checkpoint and its ancestors: name, row and tasks of each.
function ask.lineage(i)
  return line(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])), i + 3
end

-- The same, of the newest checkpoint if no id is given; and the segments that the rows name.
function ask.trail(i)
  local ns, id, found, met = ARGV[i], ARGV[i + 1], {}, {}
  if id == '\254' then
    local name = newest(ns)
    if type(name) ~= 'string' then
      return name, i + 3
    end
    id = string.sub(name, #ns + 2)
  end
  local rows_found = line(ns, id, tonumber(ARGV[i + 2]))
  for _, one in ipairs(rows_found) do
    local body = 0
    for _ = 1, 7 do
      body = body and string.find(one[2], '\255', body + 1, true)
    end
    if body and string.byte(one[2], body + 1) == 17 then
      named(one[2], body + 2, 1, found, met)
    end
  end
  return { rows_found, found }, i + 3
end

-- The fields with these names, and the segments that those of values name.
function ask.pieces(i)
  local last, more, met = i + tonumber(ARGV[i]), {}, {}
  local found = fields(i + 1, last)
  for at = 1, #found do
    local body = string.sub(ARGV[i + at], 1, 1) == 'v' and found[at]
    local kind, codec, count = string.byte(body or '', 1, 3)
    if kind == 3 or kind == 4 then -- a patch: the keys of what it changes
      named(body, 2, kind - 2, more, met)
    elseif kind == 2 and codec == 0 and count and count < 128 then
      named(body, 4, count, more, met)
    end
  end
  return { found, more }, last + 1
end

-- How long each value and each segment is: their fields, each followed by that.
function ask.sizes(i)
  local found = {}
  local all = redis.call('HKEYS', rows)
  for at = 1, #all do
    local kind = string.sub(all[at], 1, 1)
    if (kind == 'v' or kind == 's') and #all[at] > 1 then
      found[#found + 1] = all[at]
      found[#found + 1] = redis.call('HSTRLEN', rows, all[at])
    end
  end
  return found, i
end

-- The runs that the checkpoints belong to.
function ask.runs(i)
  local found, met = {}, {}
  local all = redis.call('HKEYS', rows)
  for at = 1, #all do
    if string.sub(all[at], 1, 1) == 'c' then
      local row = redis.call('HGET', rows, all[at])
      local run = string.match(row, '^[^\255]*\255[^\255]*\255[^\255]*\255([^\255]*)')
      if run and run ~= '\254' and not met[run] then
        met[run] = true
        found[#found + 1] = run
      end
    end
  end
  return found, i
end

-- Of each namespace: its newest checkpoint, how many it has, and that checkpoint's row.
function ask.summary(i)
  local found, from = {}, '-'
  while true do
    local name = redis.call('ZRANGEBYLEX', order, from, '+', 'LIMIT', 0, 1)[1]
    if not name then
      break
    end
    local ns = string.sub(name, 1, string.find(name, '\255', 1, true) - 1)
    local last, count = newest(ns)
    found[#found + 1] = { last, count, redis.call('HGET', rows, 'c' .. last) }
    from = '[' .. ns .. '\255\255'
  end
  return found, i
end

local answers = { known[1], known[2] or '', string.sub(known[3] or '', 1, 8) }
local i = 2
while i <= #ARGV do
  local answer
  answer, i = ask[ARGV[i]](i + 1)
  if type(answer) == 'table' and answer.err then
    return answer
  end
  answers[#answers + 1] = answer
end
return answers
