-- The table `cjson`: JSON as the library of that name in Redis reads and writes it.
--
-- Most of the work is done by the string library: `find` for the end of a string, one match for a key with its colon.
-- What that cannot judge (escapes, odd numbers, errors) goes to slower functions.

-- quote(text): what a long string becomes, by Python; false if there is no room for it.

local sandbox, null, quote = ...

local type, tonumber, tostring, select, next, pairs, rawget = type, tonumber, tostring, select, next, pairs, rawget
local find, sub, byte, match, gsub, format, char = string.find, string.sub, string.byte, string.match, string.gsub,
  string.format, string.char
local concat, ceil, floor, huge, loadstring = table.concat, math.ceil, math.floor, math.huge, loadstring
local fail, bad = sandbox.fail, sandbox.bad

-- Settings are kept from script to script, as in Redis.
local sparse_convert, sparse_ratio, sparse_safe = false, 2, 10
local encode_depth_max, decode_depth_max = 1000, 1000
local precision = 14
local encode_invalid, decode_invalid = false, true

-- -- encode ----------------------------------------------------------------------------------------------------------

local ESCAPES = { ['"'] = '\\"', ['\\'] = '\\\\', ['/'] = '\\/', ['\b'] = '\\b', ['\f'] = '\\f', ['\n'] = '\\n',
  ['\r'] = '\\r', ['\t'] = '\\t', ['\127'] = '\\u007f' }
for code = 0, 31 do
  local letter = char(code)
  ESCAPES[letter] = ESCAPES[letter] or format('\\u%04x', code)
end
local SPECIAL = '[%c"\\/]'

local out, used

-- What a short text was put together in, for the next one: a table that grows costs more than what is put into it.
local KEPT_BYTES_MAX = 4096
local kept

-- A pattern looks at each byte with each of its letters: for long strings another language is quicker.
local LONG = 40

local function escaped(text)
  if #text > LONG then return quote(text) or fail('not enough memory') end
  if find(text, SPECIAL) then text = gsub(text, SPECIAL, ESCAPES) end
  return text
end

-- Short strings are the same again and again: what they become is kept, until there are too many.
local SHORT_MAX = 4096
local shorts, shorts_count = {}, 0

local function short(text)
  local known = escaped(text)
  if #text <= LONG then
    if shorts_count == SHORT_MAX then
      shorts, shorts_count = {}, 0
    end
    shorts[text] = known
    shorts_count = shorts_count + 1
  end
  return known
end

-- So are the keys of objects: with what stands before them (an opening brace, the end of a string, another value) and
-- behind them (the beginning of a string, another value).
local KEYS_MAX = 1000
local keys_count = 0
local OPENING, STRING, OTHER = '{"', '","', ',"'
local before_string, before_other

local function forget_keys()
  before_string = { [OPENING] = {}, [STRING] = {}, [OTHER] = {} }
  before_other = { [OPENING] = {}, [STRING] = {}, [OTHER] = {} }
  keys_count = 0
end
forget_keys()

local function key_text(opening, key, is_string)
  local text = opening .. (shorts[key] or short(key)) .. (is_string and '":"' or '":')
  if #key <= LONG then
    if keys_count == KEYS_MAX then forget_keys() end
    local known = (is_string and before_string or before_other)[opening]
    known[key] = text
    keys_count = keys_count + 1
  end
  return text
end

local function number_text(number)
  if number ~= number or number == huge or number == -huge then
    if not encode_invalid then fail('Cannot serialise number: must not be NaN or Inf') end
    if encode_invalid == 'null' then return 'null' end
    return number ~= number and 'nan' or number > 0 and 'inf' or '-inf'
  end
  if precision == 14 then return tostring(number) end
  return format('%.' .. precision .. 'g', number)
end

-- Return the length of a table that is written as an array; -1 for an object.
local function array_length(t)
  local most, items = 0, 0
  for key in next, t do
    if type(key) ~= 'number' or key < 1 or floor(key) ~= key then return -1 end
    if key > most then most = key end
    items = items + 1
  end
  if sparse_ratio > 0 and most > items * sparse_ratio and most > sparse_safe then
    if not sparse_convert then fail('Cannot serialise table: excessively sparse array') end
    return -1
  end
  return most
end

local function put(text)
  used = used + 1
  out[used] = text
end

local put_value

local function put_object(t, depth)
  local opening = OPENING
  for key, value in next, t do
    local kind = type(key)
    if kind == 'number' then
      key = number_text(key)
    elseif kind ~= 'string' then
      fail('Cannot serialise ' .. kind .. ': table key must be a number or string')
    end
    kind = type(value)
    if kind == 'string' then
      out[used + 1] = before_string[opening][key] or key_text(opening, key, true)
      out[used + 2] = shorts[value] or short(value)
      used = used + 2
      opening = STRING
    else
      used = used + 1
      out[used] = before_other[opening][key] or key_text(opening, key, false)
      if kind == 'number' and precision == 14 and value - value == 0 then
        used = used + 1
        out[used] = value  -- table.concat prints it as tostring does
      else
        put_value(value, kind, depth)
      end
      opening = OTHER
    end
  end
  put(opening == OPENING and '{}' or opening == OTHER and '}' or '"}')
end

local function put_array(t, length, depth)
  local opening = '['
  for i = 1, length do
    put(opening)
    local value = rawget(t, i)
    put_value(value, type(value), depth)
    opening = ','
  end
  put(']')
end

function put_value(value, kind, depth)
  if kind == 'string' then
    put('"' .. (shorts[value] or short(value)) .. '"')
  elseif kind == 'number' then
    put(number_text(value))
  elseif kind == 'boolean' then
    put(value and 'true' or 'false')
  elseif kind == 'table' then
    depth = depth + 1
    if depth > encode_depth_max then
      fail('Cannot serialise, excessive nesting (' .. depth .. ')')
    end
    local length = array_length(value)
    if length > 0 then
      put_array(value, length, depth)
    else
      put_object(value, depth)
    end
  elseif value == nil or value == null then
    put('null')
  else
    fail('Cannot serialise ' .. kind .. ': type not supported')
  end
end

local function encode(...)
  if select('#', ...) ~= 1 then bad(1, 'encode', 'expected 1 argument') end
  out, used = kept or {}, 0
  kept = nil
  local value = ...
  put_value(value, type(value), 0)
  local text = concat(out, '', 1, used)
  if #text <= KEPT_BYTES_MAX then kept = out end
  return text
end

-- -- decode ----------------------------------------------------------------------------------------------------------

local text, has_escapes

-- What Redis calls a token, in its messages of what it found.
local NAMES = { ['{'] = 'T_OBJ_BEGIN', ['}'] = 'T_OBJ_END', ['['] = 'T_ARR_BEGIN', [']'] = 'T_ARR_END',
  [','] = 'T_COMMA', [':'] = 'T_COLON' }

local SHORT = { ['"'] = '"', ['\\'] = '\\', ['/'] = '/', b = '\b', f = '\f', n = '\n', r = '\r', t = '\t' }

local function utf8(code)
  if code < 0x80 then return char(code) end
  if code < 0x800 then return char(0xC0 + floor(code / 0x40), 0x80 + code % 0x40) end
  if code < 0x10000 then
    return char(0xE0 + floor(code / 0x1000), 0x80 + floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
  end
  return char(0xF0 + floor(code / 0x40000), 0x80 + floor(code / 0x1000) % 0x40, 0x80 + floor(code / 0x40) % 0x40,
    0x80 + code % 0x40)
end

-- Return a string with its escapes resolved and the position behind its quote; or nil, an error, where.
local function careful_string(p)
  local pieces, n, from = {}, 0, p
  while true do
    local q = find(text, '["\\%z]', p)
    local letter = q and byte(text, q) or 0
    if letter == 0 then return nil, 'unexpected end of string', q or #text + 1 end
    n = n + 1
    pieces[n] = sub(text, p, q - 1)
    if letter == 34 then return concat(pieces, '', 1, n), q + 1 end
    local escape = sub(text, q + 1, q + 1)
    p = q + 2
    if escape == 'u' then
      local code = tonumber(match(text, '^%x%x%x%x', p) or 'x', 16)
      if not code then return nil, 'invalid unicode escape code', q end
      p = p + 4
      if code >= 0xDC00 and code <= 0xDFFF then return nil, 'invalid unicode escape code', q end
      if code >= 0xD800 and code <= 0xDBFF then
        local low = tonumber(match(text, '^\\u(%x%x%x%x)', p) or 'x', 16)
        if not low or low < 0xDC00 or low > 0xDFFF then return nil, 'invalid unicode escape code', q end
        code = 0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00)
        p = p + 6
      end
      n = n + 1
      pieces[n] = utf8(code)
    else
      local letter = SHORT[escape]
      if not letter then return nil, 'invalid escape code', q end
      n = n + 1
      pieces[n] = letter
    end
  end
end

-- Return a number and the position behind it, by the rules of C's strtod; nil if there is none.
local function careful_number(p)
  local lower = match(text, '^[+-]?%a+', p)
  if lower then
    lower = lower:lower()
    local sign, word = match(lower, '^([+-]?)(%a+)')
    for _, name in next, { 'infinity', 'inf', 'nan' } do
      if sub(word, 1, #name) == name and (name ~= 'inf' or sub(word, 1, 8) ~= 'infinity') then
        local number = name == 'nan' and -(0 / 0) or huge
        return sign == '-' and -number or number, p + #sign + #name
      end
    end
    return nil
  end
  local hex, stop = match(text, '^([+-]?0[xX]%x+)()', p)
  if hex then
    local sign, digits = match(hex, '^([+-]?)0[xX](.*)')
    local number = 0
    for digit in digits:gmatch('.') do number = number * 16 + tonumber(digit, 16) end
    return sign == '-' and -number or number, stop
  end
  local digits, behind = match(text, '^([+-]?%d+%.?%d*)()', p)
  if not digits then return nil end
  local exponent, further = match(text, '^([eE][+-]?%d+)()', behind)
  if exponent then digits, behind = digits .. exponent, further end
  return tonumber(digits), behind
end

-- Return whether a number at p is one that JSON does not have.
local function is_invalid_number(p)
  if match(text, '^%+', p) then return true end
  local rest = sub(text, match(text, '^%-?()', p), p + 4):lower()
  if match(rest, '^0[x%d]') then return true end
  if match(rest, '^%d') then return false end
  return match(rest, '^inf') ~= nil or match(rest, '^nan') ~= nil
end

-- Raise the error for what stands at p where `wanted` should.
local function unexpected(wanted, p)
  p = match(text, '^[ \t\r\n]*()', p)
  local letter = sub(text, p, p)
  local found = NAMES[letter]
  if p > #text then
    found = 'T_END'
  elseif letter == '"' then
    local value, problem, place = careful_string(p + 1)
    found = value and 'T_STRING' or problem
    if not value then p = place end
  elseif not found then
    if match(letter, '[%d-]') then
      found = (decode_invalid or not is_invalid_number(p)) and careful_number(p) and 'T_NUMBER' or 'invalid number'
    elseif match(text, '^true', p) or match(text, '^false', p) then
      found = 'T_BOOLEAN'
    elseif match(text, '^null', p) then
      found = 'T_NULL'
    elseif decode_invalid and is_invalid_number(p) then
      found = careful_number(p) and 'T_NUMBER' or 'invalid number'
    else
      found = letter == '\0' and 'T_END' or 'invalid token'
    end
  end
  fail('Expected ' .. wanted .. ' but found ' .. found .. ' at character ' .. p)
end

local function string_at(p, wanted)
  if not has_escapes then
    local q = find(text, '"', p, true)
    if q then return sub(text, p, q - 1), q + 1 end
  end
  local value, behind = careful_string(p)
  if not value then unexpected(wanted, p - 1) end
  return value, behind
end

local read

-- -- objects that are alike --------------------------------------------------------------------------------------------
--
-- Most objects look like one before: the same keys, strings where strings were. For such a shape one pattern takes all
-- values out at once, and a function made for it puts them into a table. Shapes are found by their first key, and learnt
-- from an object that was read the long way. Only what is plain is part of one: strings, whole numbers, true, false and
-- null, in a text without escapes. Everything else, and what does not fit, is read the long way.

local SHAPES_MAX, ALIKE_MAX, LEARNT_MAX, FIELDS_MAX = 200, 4, 2000, 24
local shapes, shapes_count, learnt = {}, 0, 0
local WORDS = { ['true'] = true, ['false'] = false, ['null'] = null }

local function literally(piece)
  return (gsub(piece, '[%^%$%(%)%%%.%[%]%*%+%-%?]', '%%%0'))
end

-- Return a function that takes the captures of a pattern, the last of which is a position, and returns the table and
-- that; nothing if one of the captures is no value.
local function constructor(names, kinds)
  local parameters, checks, fields = {}, {}, {}
  for i = 1, #names do
    local v = 'v' .. i
    parameters[i] = v
    if kinds[i] == 'number' then
      v = 'tonumber(' .. v .. ')'
    elseif kinds[i] == 'word' then
      checks[#checks + 1] = gsub('V = WORDS[V] if V == nil then return end', 'V', v)
    end
    fields[i] = format('[%q] = %s', names[i], v)
  end
  local source = 'local tonumber, WORDS = ... return function(' .. concat(parameters, ', ') .. ', stop) if stop then '
    .. concat(checks, ' ') .. ' return { ' .. concat(fields, ', ') .. ' }, stop end end'
  local make = loadstring(source, '=streamd')
  return make and make(tonumber, WORDS)
end

-- Learn the shape of the object whose first key stands at p and which ends before stop.
local function learn(p, stop)
  learnt = learnt + 1
  local names, kinds, pieces, n = {}, {}, { '^' }, 0
  local at, first = p, nil
  while true do
    local key, behind = match(text, '^[ \t\r\n]*"([^"\\%z]*)"[ \t\r\n]*:[ \t\r\n]*()', at)
    if not key or #key > LONG or n == FIELDS_MAX then return end
    n = n + 1
    first = first or key
    names[n] = key
    pieces[#pieces + 1] = literally(sub(text, at, behind - 1))
    local following = match(text, '^"[^"]*"()', behind)
    if following then
      kinds[n] = 'string'
      pieces[#pieces + 1] = '"([^"]*)"'
    else
      following = match(text, '^-?[1-9]%d*()[ \t\r\n,}]', behind)
      if following then
        kinds[n] = 'number'
        pieces[#pieces + 1] = '(-?[1-9]%d*)'
      else
        local word
        word, following = match(text, '^(%l+)()', behind)
        if WORDS[word] == nil then return end
        kinds[n] = 'word'
        pieces[#pieces + 1] = '(%l+)'
      end
    end
    local comma
    comma, at = match(text, '^([ \t\r\n]*,)()', following)
    if not comma then
      local rest = sub(text, following, stop - 1)
      if not match(rest, '^[ \t\r\n]*}$') then return end
      pieces[#pieces + 1] = literally(rest)
      break
    end
    pieces[#pieces + 1] = comma
  end
  if shapes_count == SHAPES_MAX then
    shapes, shapes_count = {}, 0
  end
  local make = constructor(names, kinds)
  if not make then return end
  local known = shapes[first]
  if not known then
    known = {}
    shapes[first], shapes_count = known, shapes_count + 1
  end
  known[learnt % ALIKE_MAX + 1] = { concat(pieces) .. '()', make }
end

local read_fields

local function read_object(p, depth)
  if has_escapes then return read_fields(p, depth) end
  local first = match(text, '^"([^"]*)"', p)
  local known = shapes[first]
  if known then
    for i = 1, ALIKE_MAX do
      local shape = known[i]
      if shape then
        local t, q = shape[2](match(text, shape[1], p))
        if t then return t, q end
      end
    end
  end
  local t, q = read_fields(p, depth)
  if first and learnt < LEARNT_MAX then learn(p, q) end
  return t, q
end

function read_fields(p, depth)
  local t = {}
  local q = match(text, '^[ \t\r\n]*}()', p)
  if q then return t, q end
  while true do
    local key
    if not has_escapes then key, q = match(text, '^"([^"]*)":()', p) end
    if not key then key, q = match(text, '^[ \t\r\n]*"([^"\\%z]*)"[ \t\r\n]*:[ \t\r\n]*()', p) end
    if not key then
      q = match(text, '^[ \t\r\n]*"()', p)
      if not q then unexpected('object key string', p) end
      key, p = string_at(q, 'object key string')
      q = match(text, '^[ \t\r\n]*:[ \t\r\n]*()', p)
      if not q then unexpected('colon', p) end
    end
    local c, stop = byte(text, q), nil
    if c == 34 and not has_escapes then stop = find(text, '"', q + 1, true) end
    if stop then
      t[key] = sub(text, q + 1, stop - 1)
      p = stop + 1
    else
      t[key], p = read(q, depth)
    end
    c = byte(text, p)
    if c == 44 then
      p = p + 1
    elseif c == 125 then
      return t, p + 1
    else
      q = match(text, '^[ \t\r\n]*()', p)
      c = byte(text, q)
      if c == 125 then return t, q + 1 end
      if c ~= 44 then unexpected('comma or object end', p) end
      p = q + 1
    end
  end
end

local function read_array(p, depth)
  local t, n = {}, 0
  local q = match(text, '^[ \t\r\n]*%]()', p)
  if q then return t, q end
  while true do
    n = n + 1
    t[n], p = read(p, depth)
    local c, behind = match(text, '^[ \t\r\n]*([,%]])()', p)
    if not c then unexpected('comma or array end', p) end
    p = behind
    if c == ']' then return t, p end
  end
end

-- Return the value at p and the position behind it.
function read(p, depth)
  local c = byte(text, p)
  if c == 34 then return string_at(p + 1, 'value') end
  if c == 32 or c == 10 or c == 13 or c == 9 then
    p = match(text, '^[ \t\r\n]*()', p)
    c = byte(text, p)
    if c == 34 then return string_at(p + 1, 'value') end
  end
  if c == 123 or c == 91 then
    depth = depth + 1
    if depth > decode_depth_max then
      fail('Found too many nested data structures (' .. depth .. ') at character ' .. p)
    end
    if c == 123 then return read_object(p + 1, depth) end
    return read_array(p + 1, depth)
  end
  local digits, behind = match(text, '^(-?[1-9]%d*)()[^%deE.]', p)
  if digits then return tonumber(digits), behind end
  if c == 48 then
    local following = byte(text, p + 1)
    if following == 44 or following == 125 or following == 93 then return 0, p + 1 end
  end
  if c == 116 and sub(text, p, p + 3) == 'true' then return true, p + 4 end
  if c == 102 and sub(text, p, p + 4) == 'false' then return false, p + 5 end
  if c == 110 and sub(text, p, p + 3) == 'null' then return null, p + 4 end
  local number
  if c and (c == 45 or c >= 48 and c <= 57) then
    if decode_invalid or not is_invalid_number(p) then number, behind = careful_number(p) end
  elseif decode_invalid and c and is_invalid_number(p) then
    number, behind = careful_number(p)
  end
  if not number then unexpected('value', p) end
  return number, behind
end

local function decode(...)
  local n, source = select('#', ...), (...)
  if n ~= 1 then bad(1, 'decode', 'expected 1 argument') end
  if type(source) == 'number' then source = tostring(source) end
  if type(source) ~= 'string' then bad(1, 'decode', 'string expected, got ' .. type(source)) end
  if #source >= 2 and (byte(source, 1) == 0 or byte(source, 2) == 0) then
    fail('JSON parser does not support UTF-16 or UTF-32')
  end
  text = source
  has_escapes = find(source, '\\', 1, true) or find(source, '\0', 1, true)
  local value, p = read(1, 0)
  if p <= #source and match(source, '^[ \t\r\n]*()', p) <= #source then unexpected('the end', p) end
  return value
end

-- -- settings --------------------------------------------------------------------------------------------------------

local MOST = 2147483647

local function check_count(name, most, n)
  if n > most then bad(most + 1, name, 'found too many arguments') end
end

-- Return the whole number at a place of the words, `setting` where that is nil.
local function integer_option(name, place, value, setting, low, high)
  if value == nil then return setting end
  local number = type(value) ~= 'table' and tonumber(value)
  if not number then bad(place, name, 'number expected, got ' .. type(value)) end
  number = number < 0 and ceil(number) or floor(number)
  if number < low or number > high then bad(1, name, 'expected integer between ' .. low .. ' and ' .. high) end
  return number
end

-- Return the choice at the first place: a boolean, or a word that is one, or 'null' where that may be chosen.
local function choice_option(name, value, setting, has_null)
  if value == nil then return setting end
  if type(value) == 'boolean' then return value end
  if type(value) ~= 'string' and type(value) ~= 'number' then bad(1, name, 'string expected, got ' .. type(value)) end
  if value == 'on' or value == 'off' then return value == 'on' end
  if value ~= 'null' or not has_null then bad(1, name, "invalid option '" .. value .. "'") end
  return value
end

local cjson = { null = null, encode = encode, decode = decode, _NAME = 'cjson', _VERSION = '2.1.0' }
local keeps_buffer = true

function cjson.encode_sparse_array(...)
  local convert, ratio, safe = ...
  check_count('encode_sparse_array', 3, select('#', ...))
  sparse_convert = choice_option('encode_sparse_array', convert, sparse_convert)
  sparse_ratio = integer_option('encode_sparse_array', 2, ratio, sparse_ratio, 0, MOST)
  sparse_safe = integer_option('encode_sparse_array', 3, safe, sparse_safe, 0, MOST)
  return sparse_convert, sparse_ratio, sparse_safe
end

function cjson.encode_max_depth(...)
  check_count('encode_max_depth', 1, select('#', ...))
  encode_depth_max = integer_option('encode_max_depth', 1, (...), encode_depth_max, 1, MOST)
  return encode_depth_max
end

function cjson.decode_max_depth(...)
  check_count('decode_max_depth', 1, select('#', ...))
  decode_depth_max = integer_option('decode_max_depth', 1, (...), decode_depth_max, 1, MOST)
  return decode_depth_max
end

function cjson.encode_number_precision(...)
  check_count('encode_number_precision', 1, select('#', ...))
  precision = integer_option('encode_number_precision', 1, (...), precision, 1, 14)
  return precision
end

function cjson.encode_keep_buffer(...)
  check_count('encode_keep_buffer', 1, select('#', ...))
  keeps_buffer = choice_option('encode_keep_buffer', (...), keeps_buffer)
  return keeps_buffer
end

function cjson.encode_invalid_numbers(...)
  check_count('encode_invalid_numbers', 1, select('#', ...))
  encode_invalid = choice_option('encode_invalid_numbers', (...), encode_invalid, true)
  return encode_invalid
end

function cjson.decode_invalid_numbers(...)
  check_count('decode_invalid_numbers', 1, select('#', ...))
  decode_invalid = choice_option('decode_invalid_numbers', (...), decode_invalid)
  return decode_invalid
end

function cjson.new() return sandbox.behind.cjson end

sandbox.behind.cjson = sandbox.front(cjson)
