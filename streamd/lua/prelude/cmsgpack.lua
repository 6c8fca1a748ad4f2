-- The table `cmsgpack`: MessagePack as the library of that name in Redis reads and writes it.

local sandbox = ...

local type, select, next, tonumber, tostring, floor = type, select, next, tonumber, tostring, math.floor
local char, byte, sub, reverse, concat = string.char, string.byte, string.sub, string.reverse, table.concat
local frexp, ldexp, huge, unpack = math.frexp, math.ldexp, math.huge, unpack
local fail, bad = sandbox.fail, sandbox.bad

local DEPTH_MAX = 16
local TWO_32, TWO_63 = 2 ^ 32, 2 ^ 63

-- -- numbers ---------------------------------------------------------------------------------------------------------

-- Return so many bytes of a whole number, the highest first; negative ones as two's complement.
local function big_endian(number, size)
  if size == 8 then
    local low = number % TWO_32
    return big_endian((number - low) / TWO_32, 4) .. big_endian(low, 4)
  end
  local a, b, c, d = floor(number / 0x1000000) % 256, floor(number / 0x10000) % 256, floor(number / 256) % 256, number % 256
  if size == 1 then return char(d) end
  if size == 2 then return char(c, d) end
  return char(a, b, c, d)
end

local function whole(text, p, size)
  local a, b, c, d = byte(text, p, p + size - 1)
  if size == 1 then return a end
  if size == 2 then return a * 256 + b end
  return a * 0x1000000 + b * 0x10000 + c * 256 + d
end

-- Return the bits of a number as IEEE 754 has them, the highest byte first. digits: 52 or 23.
local function float_bits(number, digits)
  local exponent_max, size = digits == 52 and 2047 or 255, digits == 52 and 8 or 4
  local bias = (exponent_max - 1) / 2
  local sign = (number < 0 or 1 / number < 0) and 1 or 0
  local exponent, fraction
  number = sign == 1 and -number or number
  if number ~= number then
    exponent, fraction = exponent_max, 2 ^ (digits - 1)
    sign = 1
  elseif number == huge then
    exponent, fraction = exponent_max, 0
  elseif number == 0 then
    exponent, fraction = 0, 0
  else
    fraction, exponent = frexp(number)
    exponent = exponent + bias - 1
    if exponent <= 0 then
      fraction, exponent = ldexp(fraction, digits + exponent), 0
    else
      fraction = ldexp(fraction * 2 - 1, digits)
    end
  end
  if size == 4 then return big_endian(sign * 2 ^ 31 + exponent * 2 ^ 23 + fraction, 4) end
  local high = floor(fraction / TWO_32)
  return big_endian(sign * 2 ^ 31 + exponent * 2 ^ 20 + high, 4) .. big_endian(fraction % TWO_32, 4)
end

-- Return the bytes of a normal number that is fraction * 2 ^ exponent, the highest first; nil for any other. Hot path.
local function eight_bytes(fraction, exponent)
  local sign = 0
  if fraction < 0 then sign, fraction = 128, -fraction end
  if exponent < -1021 or exponent > 1024 or not (fraction >= 0.5 and fraction < 1) then return nil end
  exponent = exponent + 1022
  fraction = (fraction * 2 - 1) * 16
  local e = exponent % 16
  local b = fraction - fraction % 1
  fraction = (fraction - b) * 256
  local c = fraction - fraction % 1
  fraction = (fraction - c) * 256
  local d = fraction - fraction % 1
  fraction = (fraction - d) * 256
  local f = fraction - fraction % 1
  fraction = (fraction - f) * 256
  local g = fraction - fraction % 1
  fraction = (fraction - g) * 256
  local h = fraction - fraction % 1
  return sign + (exponent - e) / 16, e * 16 + b, c, d, f, g, h, (fraction - h) * 256
end

-- As float_bits; or with the lowest byte first.
local function float_bytes(number, digits, little)
  if digits == 52 then
    local a, b, c, d, e, f, g, h = eight_bytes(frexp(number))
    if a then return little and char(h, g, f, e, d, c, b, a) or char(a, b, c, d, e, f, g, h) end
  end
  local bits = float_bits(number, digits)
  return little and reverse(bits) or bits
end

-- Return the number that such bits are.
local function read_float(text, p, digits)
  local size, exponent_max = digits == 52 and 8 or 4, digits == 52 and 2047 or 255
  local high = whole(text, p, 4)
  local low = size == 8 and whole(text, p + 4, 4) or 0
  local high_digits = size == 8 and 20 or 23
  local sign = high >= 2 ^ 31 and -1 or 1
  high = high % 2 ^ 31
  local exponent = floor(high / 2 ^ high_digits)
  local fraction = high % 2 ^ high_digits * (size == 8 and TWO_32 or 1) + low
  if exponent == exponent_max then return fraction ~= 0 and 0 / 0 or sign * huge end
  local bias = (exponent_max - 1) / 2
  if exponent == 0 then return sign * ldexp(fraction, 1 - bias - digits) end
  return sign * ldexp(fraction + 2 ^ digits, exponent - bias - digits)
end

-- Return the number that eight bytes are, the highest first; nil where read_float is to look. Hot path.
local function normal(a, b, c, d, e, f, g, h)
  local low = b % 16
  local exponent = a % 128 * 16 + (b - low) / 16
  if exponent == 0 or exponent == 2047 then return nil end
  local digits = ((16 + low) * 0x10000 + c * 256 + d) * TWO_32 + e * 0x1000000 + f * 0x10000 + g * 256 + h
  return (a < 128 and digits or -digits) * 2 ^ (exponent - 1075)
end

-- Return whether fraction * 2 ^ exponent is the same with the precision of four bytes.
local function is_single(fraction, exponent)
  if fraction ~= fraction then return false end
  if fraction == huge or fraction == -huge or fraction == 0 then return true end
  if exponent > 128 or exponent < -148 then return false end
  if exponent >= -125 then return fraction * 0x1000000 % 1 == 0 end
  return ldexp(fraction, exponent + 149) % 1 == 0
end

-- -- pack ------------------------------------------------------------------------------------------------------------

local function pack_integer(number)
  if number >= 0 then
    if number <= 127 then return char(number) end
    if number <= 0xff then return char(204, number) end
    if number <= 0xffff then
      local low = number % 256
      return char(205, (number - low) / 256, low)
    end
    if number < TWO_32 then return '\206' .. big_endian(number, 4) end
    return '\207' .. big_endian(number, 8)
  end
  if number >= -32 then return char(256 + number) end
  if number >= -128 then return char(208, 256 + number) end
  if number >= -32768 then return '\209' .. big_endian(number, 2) end
  if number >= -2 ^ 31 then return '\210' .. big_endian(number, 4) end
  return '\211' .. big_endian(number, 8)
end

local function pack_number(number)
  if number % 1 == 0 and number >= -TWO_63 and number < TWO_63 then return pack_integer(number) end
  local fraction, exponent = frexp(number)
  if is_single(fraction, exponent) then return '\202' .. float_bytes(number, 23) end
  local a, b, c, d, e, f, g, h = eight_bytes(fraction, exponent)
  if a then return char(203, a, b, c, d, e, f, g, h) end
  return '\203' .. float_bytes(number, 52)
end

local function pack_string(text)
  local length = #text
  if length < 32 then return char(160 + length) .. text end
  if length <= 0xff then return '\217' .. char(length) .. text end
  if length <= 0xffff then return '\218' .. big_endian(length, 2) .. text end
  return '\219' .. big_endian(length, 4) .. text
end

local function head(length, short, short_max, long)
  if length <= short_max then return char(short + length) end
  if length <= 0xffff then return char(long) .. big_endian(length, 2) end
  return char(long + 1) .. big_endian(length, 4)
end

-- Return the length of a table whose keys are 1, 2 ... without a gap; nil for any other.
local function array_length(t)
  local most, items = 0, 0
  for key in next, t do
    items = items + 1
    if key ~= items and (type(key) ~= 'number' or key <= 0 or floor(key) ~= key) then return nil end
    if key > most then most = key end
  end
  return most == items and most or nil
end

-- Append what a value becomes to a list of n texts; return how long the list is.
local function put(out, n, value, depth)
  local kind = type(value)
  if kind == 'number' then
    out[n + 1] = pack_number(value)
  elseif kind == 'string' then
    out[n + 1] = pack_string(value)
  elseif kind == 'boolean' then
    out[n + 1] = value and '\195' or '\194'
  elseif kind == 'table' and depth < DEPTH_MAX then
    local length = array_length(value)
    if length then
      n = n + 1
      out[n] = head(length, 144, 15, 220)
      for i = 1, length do n = put(out, n, value[i], depth + 1) end
      return n
    end
    local count = 0
    for _ in next, value do count = count + 1 end
    n = n + 1
    out[n] = head(count, 128, 15, 222)
    for key, item in next, value do
      n = put(out, put(out, n, key, depth + 1), item, depth + 1)
    end
    return n
  else
    out[n + 1] = '\192'
  end
  return n + 1
end

local function pack(...)
  local n = select('#', ...)
  if n == 0 then bad(0, 'pack', 'MessagePack pack needs input.') end
  local out, texts = {}, 0
  for i = 1, n do texts = put(out, texts, (select(i, ...)), 0) end
  return concat(out)
end

-- -- unpack ----------------------------------------------------------------------------------------------------------

local text

local function need(p, size)
  if p + size - 1 > #text then fail('Missing bytes in input.') end
end

local read

local function read_string(p, size)
  need(p, size)
  return sub(text, p, p + size - 1), p + size
end

local function read_array(p, length, depth)
  local t = {}
  for i = 1, length do t[i], p = read(p, depth + 1) end
  return t, p
end

local function read_map(p, length, depth)
  local t = {}
  for _ = 1, length do
    local key, value
    key, p = read(p, depth + 1)
    value, p = read(p, depth + 1)
    if key == nil then fail('table index is nil') end
    if key ~= key then fail('table index is NaN') end
    t[key] = value
  end
  return t, p
end

local INTEGERS = { [204] = 1, [205] = 2, [206] = 4, [207] = 8, [208] = 1, [209] = 2, [210] = 4, [211] = 8 }
local STRINGS = { [217] = 1, [218] = 2, [219] = 4 }

function read(p, depth)
  local c, first, second = byte(text, p, p + 2)
  if not c then fail('Missing bytes in input.') end
  if depth > 190 then fail('Bad data format in input.') end
  p = p + 1
  if c < 128 then return c, p end
  if c < 144 then return read_map(p, c - 128, depth) end
  if c < 160 then return read_array(p, c - 144, depth) end
  if c < 192 then return read_string(p, c - 160) end
  if c >= 224 then return c - 256, p end
  if c == 205 and second then return first * 256 + second, p + 2 end
  if c == 203 then
    local a, b, c, d, e, f, g, h = byte(text, p, p + 7)
    if not h then fail('Missing bytes in input.') end
    return normal(a, b, c, d, e, f, g, h) or read_float(text, p, 52), p + 8
  end
  local size = STRINGS[c]
  if size then
    need(p, size)
    return read_string(p + size, whole(text, p, size))
  end
  size = INTEGERS[c]
  if size then
    need(p, size)
    local high_size = size == 8 and 4 or size
    local number = whole(text, p, high_size)
    -- (Those of 8 bytes without a sign have one, too, in Redis.)
    if (c >= 208 or size == 8) and number >= 2 ^ (high_size * 8 - 1) then number = number - 2 ^ (high_size * 8) end
    if size == 8 then number = number * TWO_32 + whole(text, p + 4, 4) end  -- rounded once, as in C
    return number, p + size
  end
  if c == 192 then return nil, p end
  if c == 194 or c == 195 then return c == 195, p end
  if c == 202 then
    need(p, 4)
    return read_float(text, p, 23), p + 4
  end
  if c >= 220 then
    size = (c == 220 or c == 222) and 2 or 4
    need(p, size)
    local length = whole(text, p, size)
    if c <= 221 then return read_array(p + size, length, depth) end
    return read_map(p + size, length, depth)
  end
  fail('Bad data format in input.')
end

local function values(p, left)
  if left == 0 or p > #text then return end
  local value
  value, p = read(p, 0)
  return value, values(p, left - 1)
end

local function begin(name, ...)
  local source = ...
  if type(source) == 'number' then source = tostring(source) end
  if type(source) ~= 'string' then
    bad(1, name, 'string expected, got ' .. (select('#', ...) > 0 and type(source) or 'no value'))
  end
  text = source
end

-- Return where to go on (-1 behind the end), and at most `limit` values from `offset` on.
local function limited(limit, offset)
  if offset < 0 or limit < 0 then
    fail('Invalid request to unpack with offset of ' .. offset .. ' and limit of ' .. #text .. '.')
  elseif offset > #text then
    fail('Start offset ' .. offset .. ' greater than input length ' .. #text .. '.')
  end
  local found, n, p = {}, 0, offset + 1
  while n < limit and p <= #text do
    n = n + 1
    found[n], p = read(p, 0)
  end
  return p > #text and -1 or p - 1, unpack(found, 1, n)
end

local cmsgpack = { pack = pack, _NAME = 'cmsgpack', _VERSION = 'lua-cmsgpack 0.4.0', _COPYRIGHT = '' }

function cmsgpack.unpack(...)
  begin('unpack', ...)
  return values(1, 190)
end

-- Return the number at a place, `default` where there is none.
local function number_at(place, name, default, ...)
  local value = (select(place, ...))
  if value == nil and default then return default end
  local number = type(value) ~= 'table' and tonumber(value)
  if not number then
    bad(place, name, 'number expected, got ' .. (select('#', ...) >= place and type(value) or 'no value'))
  end
  return number
end

function cmsgpack.unpack_one(...)
  local offset = number_at(2, 'unpack_one', 0, ...)
  begin('unpack_one', ...)
  return limited(1, offset)
end

function cmsgpack.unpack_limit(...)
  local limit = number_at(2, 'unpack_limit', nil, ...)
  local offset = number_at(3, 'unpack_limit', 0, ...)
  begin('unpack_limit', ...)
  return limited(limit, offset)
end

sandbox.behind.cmsgpack = sandbox.front(cmsgpack)

return float_bytes, read_float, normal
