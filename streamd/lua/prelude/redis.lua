-- The table `redis`, and the way in and out: arguments and replies of commands, arguments and results of scripts.
--
-- Python never raises into Lua, since an error would jump over Python's own frames: what is called here returns how it
-- went, and the function here raises. Nor does a table ever go to Python: results go flat, a piece at a time.
--
-- invoke(word, ...): executes a command of strings, invoke_any(word, ...) also one of numbers, or one whose first words
-- went by pull(word, ...); returns
--   true, value               a value that Lua has as it is, false for nil
--   STATUS, text; ERROR, text
--   FLAT, value ...           an array of a few such values
--   NESTED                    anything else: pull() returns true and the next CHUNK tokens; false if they do not
--                             fit. A token is a value; or nil, then a kind, a count and so many further ones.
--   NIL; NO_MEMORY

-- has_libraries: the state is for functions, which get KEYS and ARGV as parameters; else it is for scripts.

local sandbox, invoke, invoke_any, pull, write_log, sha1, set_protocol, may_call, word_of, version, version_number,
  has_libraries = ...

local STATUS, ERROR, FLAT, NESTED = 1, 2, 3, 4
local ARRAY, MAP, SET, DOUBLE, BIG_NUMBER, VERBATIM, NIL, BOOLEAN = 5, 6, 7, 8, 9, 10, 11, 12
local NO_MEMORY = 13
local CHUNK = 15

-- Redis ends where Lua's stack does; here what a reply can be nested in bounds it.
local DEPTH_MAX = 128
local TOO_DEEP = 'ERR reached lua stack limit'
local RESULTS_MAX = 200  -- so many values are returned to Python at once

local type, error, select, unpack, setmetatable, rawget = type, error, select, unpack, setmetatable, rawget
local pairs, tostring, tonumber, xpcall, getinfo = pairs, tostring, tonumber, xpcall, debug.getinfo
local gsub = string.gsub
local concat, collect = table.concat, collectgarbage
local fail, SOURCE, behind = sandbox.fail, sandbox.SOURCE, sandbox.behind

local is_word = { string = true, number = true }
local protocol = 2

-- -- commands --------------------------------------------------------------------------------------------------------

local tokens, at

local function token()
  if at > CHUNK then
    tokens = { pull() }
    if not tokens[1] then fail('not enough memory') end
    at = 1
  end
  at = at + 1
  return tokens[at]
end

local function read()
  local value = token()
  if value ~= nil then return value end
  local kind, count = token(), token()
  local t = {}
  if kind == ARRAY then
    for i = 1, count do t[i] = read() end
  elseif kind == STATUS then
    t.ok = token()
  elseif kind == ERROR then
    t.err = token()
    t.ignore_error_stats_update = true
  elseif kind == MAP then
    for _ = 1, count do
      local key = read()
      t[key] = read()
    end
    return { map = t }
  elseif kind == SET then
    for _ = 1, count do t[read()] = true end
    return { set = t }
  elseif kind == DOUBLE then
    t.double = token()
  elseif kind == BIG_NUMBER then
    t.big_number = token()
  elseif kind == VERBATIM then
    t.format, t.string = token(), token()
    return { verbatim_string = t }
  elseif kind == NIL then
    return nil
  end
  return t
end

local function rare(kind, ...)
  if kind == FLAT then return { ... } end
  if kind == STATUS then return { ok = (...) } end
  if kind == NESTED then
    at = CHUNK + 1
    local value = read()
    tokens = nil
    return value
  end
  if kind == NIL then return nil end
  if kind == NO_MEMORY then fail('not enough memory') end
  return { err = (...), ignore_error_stats_update = true }, true
end

local function reply(kind, ...)
  if kind == true then return ... end
  return rare(kind, ...)
end

local NOT_WORDS = 'ERR Lua redis lib command arguments must be strings or integers'

local function request_many(n, ...)
  local words = { ... }
  for i = 1, n do
    if not is_word[type(words[i])] then return { err = NOT_WORDS }, true end
  end
  -- A call costs the square of its arguments: many go a few at a time.
  for first = 1, n - CHUNK, CHUNK do pull(unpack(words, first, first + CHUNK - 1)) end
  return reply(invoke_any(unpack(words, n - (n - 1) % CHUNK, n)))
end

-- What kinds of words there are, as a sum: n for n strings, a little more with numbers among them, else less.
local WEIGHTS = setmetatable({ string = 1, number = 1.0625, ['nil'] = 0 }, { __index = function() return -100 end })

-- Return the command's value; an error's table and `true` after it.
local function request(...)
  local n, W = select('#', ...), WEIGHTS
  local weight
  if n <= 3 then
    local a, b, c = ...
    weight = W[type(a)] + W[type(b)] + W[type(c)]
  elseif n <= 6 then
    local a, b, c, d, e, f = ...
    weight = W[type(a)] + W[type(b)] + W[type(c)] + W[type(d)] + W[type(e)] + W[type(f)]
  else
    return request_many(n, ...)
  end
  if weight < n then return { err = NOT_WORDS }, true end
  if weight > n then return reply(invoke_any(...)) end
  if n == 0 then return { err = 'ERR Please specify at least one argument for this redis lib call' }, true end
  return reply(invoke(...))
end

local function raise(value, failed)
  if failed then error(value, 0) end
  return value
end

-- A number as a word has all its digits; what a whole one has, Lua writes more quickly. (There is no negative zero.)
local function word(value)
  if type(value) == 'string' then return value end
  if value % 1 == 0 and value < 1e14 and value > -1e14 then return value + 0 .. '' end
  return word_of(value)
end

-- The same as `raise(reply(...))`, for what comes most.
local function called(kind, ...)
  if kind == true then return ... end
  return raise(rare(kind, ...))
end

local redis = {}

-- A few words, which most commands are, go without the detours of `request`.
function redis.call(...)
  local n, W = select('#', ...), WEIGHTS
  if n <= 3 then
    local a, b, c = ...
    local weight = W[type(a)] + W[type(b)] + W[type(c)]
    if weight == n and n > 0 then return called(invoke(...)) end
    if weight > n then
      if n == 3 then return called(invoke(word(a), word(b), word(c))) end
      if n == 2 then return called(invoke(word(a), word(b))) end
    end
  elseif n <= 6 then
    local a, b, c, d, e, f = ...
    local weight = W[type(a)] + W[type(b)] + W[type(c)] + W[type(d)] + W[type(e)] + W[type(f)]
    if weight == n then return called(invoke(...)) end
    if weight > n then
      if n == 6 then return called(invoke(word(a), word(b), word(c), word(d), word(e), word(f))) end
      if n == 5 then return called(invoke(word(a), word(b), word(c), word(d), word(e))) end
      return called(invoke(word(a), word(b), word(c), word(d)))
    end
  end
  return raise(request(...))
end

function redis.pcall(...) return (request(...)) end

local function fail_as_table(text)
  error({ err = 'ERR ' .. text }, 0)
end

local function single(key, ...)
  local text = ...
  if select('#', ...) ~= 1 or type(text) ~= 'string' then return { err = 'ERR wrong number or type of arguments' } end
  if key == 'err' then
    text = gsub(text, '^%-', '')
    if not text:find(' ', 1, true) then text = 'ERR ' .. text end
  end
  return { [key] = text }
end

function redis.error_reply(...) return single('err', ...) end
function redis.status_reply(...) return single('ok', ...) end

function redis.sha1hex(...)
  if select('#', ...) ~= 1 then fail_as_table('wrong number of arguments') end
  local text = ...
  if type(text) == 'number' then text = tostring(text) end
  return sha1(type(text) == 'string' and text or '') or fail('not enough memory')
end

function redis.log(...)
  local n, level = select('#', ...), (...)
  if n < 2 then fail_as_table('redis.log() requires two arguments or more.') end
  if type(level) ~= 'number' then fail_as_table('First argument must be a number (log level).') end
  if level < 0 or level > 3 then fail_as_table('Invalid log level.') end
  local words = { select(2, ...) }
  for i = 1, n - 1 do
    words[i] = is_word[type(words[i])] and tostring(words[i]) or ''
  end
  write_log(level, concat(words, ' ', 1, n - 1))
end

function redis.setresp(...)
  if select('#', ...) ~= 1 then fail_as_table('redis.setresp() requires one argument.') end
  local version = tonumber((...))
  if version ~= 2 and version ~= 3 then fail_as_table('RESP version must be 2 or 3.') end
  protocol = version
  set_protocol(version)
end

-- Effects always go to the journal, as whole units; these are there for scripts that ask for it.
if not has_libraries then
  function redis.replicate_commands() return true end
end

function redis.set_repl(...)
  if select('#', ...) ~= 1 then fail_as_table('redis.set_repl() requires one argument.') end
  local flags = tonumber((...))
  if not flags or flags < 0 or flags > 3 then
    fail_as_table('Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.')
  end
end

function redis.acl_check_cmd(...)
  local n = select('#', ...)
  if n == 0 then fail_as_table('Please specify at least one argument for this redis lib call') end
  local words = { ... }
  for i = 1, n do
    if not is_word[type(words[i])] then fail_as_table('Lua redis lib command arguments must be strings or integers') end
    words[i] = word(words[i])
  end
  for first = 1, n - CHUNK, CHUNK do pull(unpack(words, first, first + CHUNK - 1)) end
  local allowed = may_call(unpack(words, n - (n - 1) % CHUNK, n))
  if type(allowed) == 'string' then fail_as_table(allowed) end
  return allowed
end

redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3
redis.REDIS_VERSION, redis.REDIS_VERSION_NUM = version, version_number
redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_ALL = 0, 1, 2, 2, 3

behind.redis = sandbox.front(redis)

-- -- scripts ---------------------------------------------------------------------------------------------------------

-- Make a table of an error that nothing caught, with the place in the script where it was raised.
local function locate(err)
  if sandbox.reason() then err = nil end
  local t = type(err) == 'table' and err or { err = 'ERR ' .. tostring(err) }
  local level = 2
  while true do
    local info = getinfo(level, 'Sl')
    if not info then break end
    if info.source ~= SOURCE and info.what ~= 'C' and info.currentline > 0 then
      return { err = rawget(t, 'err'), source = info.source, line = info.currentline }
    end
    level = level + 1
  end
  return { err = rawget(t, 'err') }
end

local flat, size

local function put(value)
  size = size + 1
  flat[size] = value
end

-- nil begins what is no plain value.
local function put_kind(kind, count)
  flat[size + 2], flat[size + 3] = kind, count
  size = size + 3
end

local put_value

local function put_pairs(kind, t, depth)
  local place = size + 3
  put_kind(kind, 0)
  local count = 0
  for key, value in pairs(t) do
    put_value(key, depth)
    if kind == MAP then put_value(value, depth) end
    count = count + 1
  end
  flat[place] = count
end

local function put_table(t, depth)
  local get = rawget
  local err, ok = get(t, 'err'), get(t, 'ok')
  if depth > DEPTH_MAX then err = TOO_DEEP end
  if type(err) == 'string' then
    put_kind(ERROR, 1)
    return put(err)
  elseif type(ok) == 'string' then
    put_kind(STATUS, 1)
    return put(ok)
  end
  local double, map, set, big = get(t, 'double'), get(t, 'map'), get(t, 'set'), get(t, 'big_number')
  if type(double) == 'number' then
    put_kind(DOUBLE, 1)
    return put(double)
  elseif type(map) == 'table' then
    return put_pairs(MAP, map, depth + 1)
  elseif type(set) == 'table' then
    return put_pairs(SET, set, depth + 1)
  elseif type(big) == 'string' then
    put_kind(BIG_NUMBER, 1)
    return put(big)
  end
  local verbatim = get(t, 'verbatim_string')
  if type(verbatim) == 'table' then
    local text, form = get(verbatim, 'string'), get(verbatim, 'format')
    if type(text) == 'string' and type(form) == 'string' then
      put_kind(VERBATIM, 2)
      put(form)
      return put(text)
    end
  end
  local place, i = size + 3, 1
  put_kind(ARRAY, 0)
  local value = get(t, 1)
  while value ~= nil do
    local kind = type(value)
    if kind == 'string' or kind == 'number' then
      size = size + 1
      flat[size] = value
    else
      put_value(value, depth + 1)
    end
    i = i + 1
    value = get(t, i)
  end
  flat[place] = i - 1
end

function put_value(value, depth)
  local kind = type(value)
  if kind == 'string' or kind == 'number' then
    put(value)
  elseif kind == 'table' then
    put_table(value, depth)
  elseif kind == 'boolean' and protocol == 3 then
    put_kind(BOOLEAN, 1)
    put(value)
  else
    put(value == true and 1 or false)
  end
end

local sent

-- Return how many values are left, and some.
local function more()
  local first = sent + 1
  sent = sent + RESULTS_MAX
  if sent >= size then
    local all = flat
    flat = nil
    return 0, unpack(all, first, size)
  end
  return size - sent, unpack(flat, first, sent)
end

local function finish(ok, value)
  behind.KEYS, behind.ARGV, tokens = nil, nil, nil
  if not ok then
    if type(value) ~= 'table' then  -- there was no memory to describe the error
      collect()
      value = { err = 'ERR ' .. tostring(value) }
    end
    local text = value.err
    text = sandbox.reason() or is_word[type(text)] and tostring(text) or 'ERR unknown error'
    return false, text, value.source or false, value.line or 0
  end
  local kind = type(value)
  if kind == 'string' or kind == 'number' then return value end
  if kind == 'boolean' and protocol == 2 or kind ~= 'table' and kind ~= 'boolean' then return value == true end
  flat, size, sent = {}, 0, 0
  put_value(value, 1)
  return more()
end

local function start(f, K, A)
  sandbox.begin()
  if protocol ~= 2 then
    protocol = 2
    set_protocol(2)
  end
  if has_libraries then
    -- (No tail call: it would drop the frame of what is called here.)
    return finish(xpcall(function()
      local value = f(K, A)
      return value
    end, locate))
  end
  behind.KEYS, behind.ARGV = K, A
  return finish(xpcall(f, locate))
end

local function start_apart(f, keys, K, n)
  local A = {}
  for i = keys + 1, n do
    A[i - keys] = K[i]
    K[i] = nil
  end
  return start(f, K, A)
end

local function start_with_one(f, key, ...) return start(f, { key }, { ... }) end
local function start_with_two(f, key, other, ...) return start(f, { key, other }, { ... }) end

-- Run a compiled script; the first `keys` words are KEYS, the others ARGV.
local function run(f, keys, ...)
  if keys == 1 then return start_with_one(f, ...) end
  if keys == 2 then return start_with_two(f, ...) end
  return start_apart(f, keys, { ... }, select('#', ...))
end

-- Too many words for one call are fed a few at a time, and then run.
local fed, count = {}, 0

local function feed(...)
  local n = select('#', ...)
  for i = 1, n do fed[count + i] = (select(i, ...)) end
  count = count + n
end

local function run_fed(f, keys)
  local words, n = fed, count
  fed, count = {}, 0
  return start_apart(f, keys, words, n)
end

sandbox.redis, sandbox.is_word, sandbox.fail_as_table = redis, is_word, fail_as_table
sandbox.locate, sandbox.finish = locate, finish

-- Compile a script: its function, or nil and an error.
return sandbox.compile, sandbox.load, run, feed, run_fed, more
