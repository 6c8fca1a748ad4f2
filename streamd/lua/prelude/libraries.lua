-- Libraries of functions: what their code sees while it is loaded, and what it registers.
--
-- While a library is loaded there is one global, `redis`, with little in it. Its functions see all that scripts see; what
-- they keep in local variables stays for their next call.

local sandbox = ...

local type, select, pairs, tostring, xpcall = type, select, pairs, tostring, xpcall
local concat, format = table.concat, string.format
local redis, is_word, fail_as_table = sandbox.redis, sandbox.is_word, sandbox.fail_as_table
local locate, finish = sandbox.locate, sandbox.finish

local FLAGS = { ['no-writes'] = true, ['allow-oom'] = true, ['allow-stale'] = true, ['no-cluster'] = true,
                ['allow-cross-slot-keys'] = true }
local registered  -- the functions of the library that is being loaded, in their order and by their names

local function fail_of_registering(text)
  fail_as_table(format(text, 'redis.register_function'))
end

-- Return a name as a string, nil if it is none: numbers are.
local function as_string(value)
  return is_word[type(value)] and tostring(value) or nil
end

local function read_flags(flags)
  if type(flags) ~= 'table' then
    fail_of_registering('flags argument to %s must be a table representing function flags')
  end
  local names, i = {}, 1
  while flags[i] ~= nil do
    local name = type(flags[i]) == 'string' and flags[i]:lower()
    if not FLAGS[name] then fail_as_table('unknown flag given') end
    names[i], i = name, i + 1
  end
  return concat(names, ' ')
end

local READERS = {
  function_name = function(value)
    return as_string(value) or fail_of_registering('function_name argument given to %s must be a string')
  end,
  description = function(value)
    return as_string(value) or fail_of_registering('description argument given to %s must be a string')
  end,
  callback = function(value)
    if type(value) ~= 'function' then
      fail_of_registering('callback argument given to %s must be a function')
    end
    return value
  end,
  flags = read_flags,
}

local function read_named(given)
  if type(given) ~= 'table' then
    fail_of_registering(
      'calling %s with a single argument is only applicable to Lua table (representing named arguments).')
  end
  local read = {}
  for key, value in pairs(given) do
    key = as_string(key) or fail_of_registering('named argument key given to %s is not a string')
    key = key:lower()
    local reader = READERS[key] or fail_of_registering('unknown argument given to %s')
    read[key] = reader(value)
  end
  if not read.function_name then fail_of_registering('%s must get a function name argument') end
  if not read.callback then fail_of_registering('%s must get a callback argument') end
  return read
end

local function read_two(name, callback)
  name = as_string(name) or fail_of_registering('first argument to %s must be a string')
  if type(callback) ~= 'function' then fail_of_registering('second argument to %s must be a function') end
  return { function_name = name, callback = callback }
end

local function register_function(...)
  if not registered then fail_of_registering('%s can only be called on FUNCTION LOAD command') end
  local n = select('#', ...)
  if n < 1 or n > 2 then fail_of_registering('wrong number of arguments to %s') end
  local given = n == 1 and read_named(...) or n == 2 and read_two(...)
  local name = given.function_name
  if not name:find('^[%w_]+$') then
    fail_as_table(
      'Library names can only contain letters, numbers, or underscores(_) and must be at least one character long')
  end
  -- (They are called whatever their case.)
  local folded = name:lower()
  if registered[folded] then fail_as_table('Function already exists in the library') end
  registered[folded] = true
  registered[#registered + 1] = given
end

-- All that a library sees while it is loaded.
local while_loading = sandbox.strict {
  redis = sandbox.front(sandbox.strict {
    register_function = register_function, log = redis.log, REDIS_VERSION = redis.REDIS_VERSION,
    REDIS_VERSION_NUM = redis.REDIS_VERSION_NUM,
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  }),
}

-- Run a library's code: return true and the number of its functions, which `registration` returns; false and an error.
local function load_library(f)
  sandbox.begin()
  registered = {}
  sandbox.show_only(while_loading)
  local ok, value = xpcall(f, locate)
  sandbox.show_only()
  if not ok then
    registered = nil
    return finish(false, value)
  end
  return true, #registered
end

-- Return the name, the description or false, the flags and the function of a registration; the library is loaded with
-- the last one.
local function registration(i)
  local all, given = registered, registered[i]
  if i == #all then registered = nil end
  return given.function_name, given.description or false, given.flags or '', given.callback
end

return load_library, registration
