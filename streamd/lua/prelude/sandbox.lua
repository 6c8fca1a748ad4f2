-- What a script sees of Lua: a global table that it cannot change, wrappers around the few functions of the
-- standard library that could leave it, and nothing of Python.
--
-- Scripts share one Lua state. So that none leaves anything behind, their tables `redis`, `string` ... and the global
-- table itself are empty ones in front of the real ones (`front`), which Lua can only read through. Every function of
-- the standard library that reads or writes tables raw is wrapped, and looks through or refuses.
--
-- `tick()`: called every STEP instructions; returns whether the script shall end. Once it has, nothing that catches
-- errors keeps that error: pcall, xpcall, load and coroutines raise it again. `chunk_name`: what errors call the code.

local tick, bytes_max, random, seed, chunk_name = ...

local STEP = 100000
local SOURCE = '=streamd'
local RESUMES_PER_TICK = 64

local type, error, select, unpack, rawpcall, rawxpcall = type, error, select, unpack, pcall, xpcall
local next, tostring, tonumber, setmetatable, getmetatable = next, tostring, tonumber, setmetatable, getmetatable
local raw_pairs, raw_ipairs, raw_set, raw_get, raw_equal = pairs, ipairs, rawset, rawget, rawequal
local loadstring, setfenv, collectgarbage = loadstring, setfenv, collectgarbage
local getinfo, sethook, raw_meta = debug.getinfo, debug.sethook, debug.getmetatable
local co_create, co_resume, co_status = coroutine.create, coroutine.resume, coroutine.status
local concat, rep, dump, floor = table.concat, string.rep, string.dump, math.floor

local READONLY = 'Attempt to modify a readonly table'
local KILLED = {}  -- what is raised when a script is ended: no script gets hold of it
local killed = false

-- -- errors ----------------------------------------------------------------------------------------------------------

-- Return 'user_script:7: ' for the script's line that runs, '' if that cannot be said, as where pcall called a function
-- of the library; and the name by which the script called that function, and whether as a method.
local function where()
  local level, called, behind_c = 2, nil, false
  while true do
    local info = getinfo(level, 'Slf')
    if not info or info.func == rawpcall or info.func == rawxpcall then break end
    if info.what == 'C' then
      behind_c = true
    elseif info.source == SOURCE then
      called, behind_c = level, false
    elseif info.what ~= 'tail' then
      if behind_c then break end
      local by = called and getinfo(called, 'n') or {}
      return info.currentline > 0 and info.short_src .. ':' .. info.currentline .. ': ' or '', by.name, by.namewhat
    end
    level = level + 1
  end
  return '', '?'
end

-- Raise an error as the functions of Lua's library do: with the place of the call.
local function fail(message)
  local place = where()
  error(place .. message, 0)
end

-- name: what a script is told that called the function in a way that leaves none.
local function bad(number, name, what)
  local place, called, as = where()
  name = called or name
  if as == 'method' then
    number = number - 1
    if number == 0 then error(place .. "calling '" .. name .. "' on bad self (" .. what .. ')', 0) end
  end
  error(place .. 'bad argument #' .. number .. " to '" .. name .. "' (" .. what .. ')', 0)
end

local function kind(n, value)
  return n > 0 and type(value) or 'no value'
end

local function want_table(n, value, name)
  if type(value) ~= 'table' then
    bad(1, name, 'table expected, got ' .. kind(n, value))
  end
end

local function check()
  if killed or tick() then
    killed = 'ERR Script killed by user with SCRIPT KILL...'
    error(KILLED, 0)
  end
end

local function after(ok, ...)
  if killed and not ok then error(KILLED, 0) end
  return ok, ...
end

-- -- tables that can only be read ------------------------------------------------------------------------------------

local real = {}        -- front -> the table behind it
local shown_meta = {}  -- front -> what getmetatable says of it

local function refuse()
  fail(READONLY)
end

local function front(behind, index)
  local before = setmetatable({}, { __index = index or behind, __newindex = refuse, __metatable = false })
  real[before] = behind
  return before
end

local missing = {
  __index = function(_, name)
    fail("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'")
  end,
}

-- Return a table that has no other names than these: others are errors.
local function strict(names)
  return setmetatable(names, missing)
end

local behind = {}  -- the global table
local G = front(behind, strict(behind))
-- A script may look at the metatable of the global table, and at that of strings.
shown_meta[G] = front({ __index = function() end })

local function check_writable(t)
  if real[t] then error(READONLY, 0) end
end

local env = {}

function env.getmetatable(...)
  local n, value = select('#', ...), (...)
  if n == 0 then bad(1, 'getmetatable', 'value expected') end
  if type(value) == 'string' then return shown_meta.string end
  if real[value] then return shown_meta[value] end
  return getmetatable(value)
end

function env.setmetatable(...)
  local t, meta = ...
  want_table(select('#', ...), t, 'setmetatable')
  if meta ~= nil and type(meta) ~= 'table' or select('#', ...) < 2 then
    bad(2, 'setmetatable', 'nil or table expected')
  end
  check_writable(t)
  local ok, message = rawpcall(setmetatable, t, meta)
  if not ok then fail(message) end
  return t
end

function env.rawset(...)
  local t, key, value = ...
  want_table(select('#', ...), t, 'rawset')
  check_writable(t)
  local same = raw_set(t, key, value)
  return same
end

function env.rawget(...)
  local t, key = ...
  want_table(select('#', ...), t, 'rawget')
  return raw_get(real[t] or t, key)
end

function env.next(...)
  local t, key = ...
  want_table(select('#', ...), t, 'next')
  return next(real[t] or t, key)
end

function env.pairs(...)
  local t = ...
  want_table(select('#', ...), t, 'pairs')
  local inner = real[t]
  if inner then
    return function(_, key) return next(inner, key) end, t, nil
  end
  return raw_pairs(t)
end

function env.ipairs(...)
  want_table(select('#', ...), (...), 'ipairs')
  return raw_ipairs((...))
end

function env.rawequal(...)
  if select('#', ...) < 2 then bad(select('#', ...) + 1, 'rawequal', 'value expected') end
  return raw_equal(...)
end

-- -- running other code ----------------------------------------------------------------------------------------------

-- As in Redis, the error of a command is caught as its text.
local function caught(ok, ...)
  if ok then return true, ... end
  local value = ...
  if type(value) == 'table' then
    local text = value.err
    if type(text) == 'string' or type(text) == 'number' then return false, text end
  end
  return false, value
end

function env.pcall(...)
  if select('#', ...) == 0 then return false, 'attempt to call a boolean value' end
  return caught(after(rawpcall(...)))
end

function env.xpcall(...)
  local f, handler = ...
  if select('#', ...) < 2 then bad(2, 'xpcall', 'value expected') end
  -- A handler runs where hooks do not reach: for an error raised by one it must not run at all.
  return after(rawxpcall(f, function(message)
    if killed then return message end
    return handler(message)
  end))
end

local function want_chunk_name(name, called)
  if name ~= nil and type(name) ~= 'string' and type(name) ~= 'number' then
    bad(2, called, 'string expected, got ' .. type(name))
  end
end

-- Bytecode can do anything to the process, so only text is loaded.
local function load_text(text, name)
  if text:byte(1) == 27 then return nil, 'attempt to load bytecode' end
  local f, message = loadstring(text, name)
  if f then setfenv(f, G) end
  return f, message
end

function env.loadstring(...)
  local text, name = ...
  if type(text) == 'number' then text = tostring(text) end
  if type(text) ~= 'string' then
    bad(1, 'loadstring', 'string expected, got ' .. kind(select('#', ...), text))
  end
  want_chunk_name(name, 'loadstring')
  return load_text(text, name or text)
end

function env.load(...)
  local reader, name = ...
  want_chunk_name(name, 'load')
  if type(reader) ~= 'function' then
    bad(1, 'load', 'function expected, got ' .. kind(select('#', ...), reader))
  end
  local pieces, n = {}, 0
  while true do
    local ok, piece = after(rawpcall(reader))
    if not ok then return nil, piece end
    if piece == nil or piece == '' then break end
    if type(piece) ~= 'string' and type(piece) ~= 'number' then return nil, 'reader function must return a string' end
    n = n + 1
    pieces[n] = piece
  end
  return load_text(concat(pieces), name or '=(load)')
end

-- Hooks belong to one coroutine each. A script that makes many short ones is seen by what it resumes.
local function hook()
  check()
end

local resumes = 0

-- What the library has is written in C, or behaves like it.
local function is_of_script(f)
  if type(f) ~= 'function' then return false end
  local info = getinfo(f, 'S')
  return info.what ~= 'C' and info.source ~= SOURCE
end

local function create(name, f)
  if not is_of_script(f) then bad(1, name, 'Lua function expected') end
  local co = co_create(f)
  sethook(co, hook, '', STEP)
  return co
end

local function resumed(co, ok, ...)
  if co_status(co) == 'dead' then sethook(co) end
  return after(ok, ...)
end

local function resume(co, ...)
  resumes = resumes + 1
  if resumes == RESUMES_PER_TICK then
    resumes = 0
    check()
  end
  return resumed(co, co_resume(co, ...))
end

local function pass(ok, ...)
  if ok then return ... end
  local message = ...
  if type(message) == 'string' then fail(message) end
  error(message, 0)
end

local co = {}
for name, f in raw_pairs(coroutine) do co[name] = f end

function co.create(f) return create('create', f) end

function co.resume(...)
  if type((...)) ~= 'thread' then bad(1, 'resume', 'coroutine expected') end
  return resume(...)
end

function co.wrap(f)
  local made = create('wrap', f)
  return function(...) return pass(resume(made, ...)) end
end

-- -- what could take too much, or change what others see ------------------------------------------------------------

local COLLECTS = { collect = true, count = true, step = true, stop = false, restart = false, setpause = false, setstepmul = false }

function env.collectgarbage(what, size)
  what = what or 'collect'
  local collects = COLLECTS[what]
  if collects == nil then bad(1, 'collectgarbage', "invalid option '" .. tostring(what) .. "'") end
  if size ~= nil and not tonumber(size) then bad(2, 'collectgarbage', 'number expected, got ' .. type(size)) end
  return collects and collectgarbage(what, size) or 0
end

function env.gcinfo() return floor(collectgarbage('count')) end

local str, tbl, mth = {}, {}, {}
for name, f in raw_pairs(string) do str[name] = f end
for name, f in raw_pairs(table) do tbl[name] = f end
for name, f in raw_pairs(math) do mth[name] = f end

-- The loop of string.rep runs without hooks: it must not run long.
function str.rep(...)
  local text, times = ...
  local n = select('#', ...)
  if type(text) == 'number' then text = tostring(text) end
  if type(text) ~= 'string' then bad(1, 'rep', 'string expected, got ' .. kind(n, text)) end
  local count = tonumber(times)
  if not count or type(times) == 'table' then
    bad(2, 'rep', 'number expected, got ' .. (n > 1 and type(times) or 'no value'))
  end
  if text == '' or count < 1 then return '' end
  if #text * count > bytes_max then fail('not enough memory') end
  return rep(text, count)
end

local function named(name, ok, ...)
  if ok then return ... end
  fail((tostring((...)):gsub("'%?'", "'" .. name .. "'")))
end

for _, name in raw_ipairs { 'insert', 'remove', 'setn' } do
  local f = tbl[name]
  tbl[name] = function(...)
    local t = ...
    want_table(select('#', ...), t, name)
    check_writable(t)
    return named(name, rawpcall(f, ...))
  end
end

local insert, sort = tbl.insert, table.sort

-- Called in loops: without the price of a pcall where nothing can fail.
function tbl.insert(...)
  local t, value = ...
  if select('#', ...) ~= 2 or type(t) ~= 'table' or real[t] then return insert(...) end
  raw_set(t, #t + 1, value)
end

function tbl.sort(...)
  local t, precedes = ...
  want_table(select('#', ...), t, 'sort')
  if precedes ~= nil and type(precedes) ~= 'function' then
    bad(2, 'sort', 'function expected, got ' .. type(precedes))
  end
  if real[t] then return end
  local ok, message = rawpcall(sort, ...)
  if ok then return end
  -- The only error of its own that names a place, which would be here.
  if message == 'invalid order function for sorting' then message = where() .. message end
  error(message, 0)
end

for _, name in raw_ipairs { 'foreach', 'foreachi' } do
  local f = tbl[name]
  tbl[name] = function(...)
    local t, each = ...
    want_table(select('#', ...), t, name)
    if type(each) ~= 'function' then bad(2, name, 'function expected, got ' .. kind(select('#', ...) - 1, each)) end
    return f(real[t] or t, each)
  end
end

-- With the numbers that Redis has, from a generator of its own.
function mth.random(...)
  local n, low, high = select('#', ...), ...
  local r = random()
  if n == 0 then return r end
  low, high = tonumber(low), tonumber(high)
  if not low then bad(1, 'random', 'number expected, got ' .. type((...))) end
  if n == 1 then
    low, high = 1, low
    if high < 1 then bad(1, 'random', 'interval is empty') end
  elseif n == 2 then
    if not high then bad(2, 'random', 'number expected, got ' .. type((select(2, ...)))) end
    if low > high then bad(2, 'random', 'interval is empty') end
  else
    fail('wrong number of arguments')
  end
  return floor(r * (high - low + 1)) + low
end

function mth.randomseed(...)
  local number = tonumber((...))
  if not number then bad(1, 'randomseed', 'number expected, got ' .. kind(select('#', ...), (...))) end
  seed(number)
end

-- -- the global table ------------------------------------------------------------------------------------------------

for _, name in raw_ipairs { 'assert', 'error', 'select', 'tonumber', 'tostring', 'type', 'unpack', '_VERSION' } do
  behind[name] = _G[name]
end
for name, value in raw_pairs(env) do behind[name] = value end
behind._G = G
behind.string, behind.table, behind.math, behind.coroutine = front(str), front(tbl), front(mth), front(co)
behind.os = front({ clock = os.clock })
getmetatable('').__index = str
shown_meta.string = front({ __index = behind.string })

local function hide_metatable(value)
  real[value] = {}
end

local sandbox = {
  hide_metatable = hide_metatable, fail = fail, bad = bad, front = front, strict = strict, behind = behind, G = G,
  SOURCE = SOURCE,
}

-- Let scripts see these names instead of the global table's, until it is called without any.
function sandbox.show_only(names)
  raw_meta(G).__index = names or behind
end

function sandbox.begin()
  killed = false
  return HELD
end
function sandbox.reason() return killed end
function sandbox.load(code) return setfenv(loadstring(code), G) end

-- Return a script as bytecode; or nil, a message.
function sandbox.compile(text)
  local f, message = loadstring(text, '@' .. chunk_name)
  if not f then return nil, message end
  return dump(f)
end



-- lupa looks for this global before each call, where nothing would catch that there is no memory for its name. As long
-- as the name is held, it needs none.
local HELD = 'debug'

-- Take away the real global table, for whoever might reach it, and begin to watch.
function sandbox.close()
  local globals = _G
  for name in raw_pairs(globals) do globals[name] = nil end
  sethook(hook, '', STEP)
end

return sandbox
