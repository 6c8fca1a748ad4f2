-- The table `bit`: operations on the lowest 32 bits of numbers, of which Lua 5.1 has none; results are signed.
--
-- Bits are kept as a number from 0 to 2^32 - 1, in which doubles are exact.
-- lowest(a): the bits of a number that is no whole one, or too large.

local sandbox, lowest = ...

local select, tonumber, type, format, sub, upper = select, tonumber, type, string.format, string.sub, string.upper
local floor = math.floor
local bad = sandbox.bad
local ALL, SIGN, EXACT = 2 ^ 32, 2 ^ 31, 2 ^ 53

local function number(place, name, n, ...)
  local value = (select(place, ...))
  local found = type(value) == 'string' and tonumber(value) or value
  if type(found) ~= 'number' then
    bad(place, name, 'number expected, got ' .. (place <= n and type(value) or 'no value'))
  end
  return found
end

local function bits(value)
  if value % 1 == 0 and value > -EXACT and value < EXACT then return value % ALL end
  return lowest(value)
end

local function signed(value)
  if value >= SIGN then return value - ALL end
  return value
end

-- rows[x][y] is what two bytes have in common; a row is made when somebody needs it.
local rows = {}

local function row(x)
  local made = {}
  for y = 0, 255 do
    local a, b, both = x, y, 0
    for at = 0, 7 do
      if a % 2 == 1 and b % 2 == 1 then both = both + 2 ^ at end
      a, b = floor(a / 2), floor(b / 2)
    end
    made[y] = both
  end
  rows[x] = made
  return made
end

local function both(a, b)
  local result, place = 0, 1
  while a > 0 and b > 0 do
    local x, y = a % 256, b % 256
    result = result + (rows[x] or row(x))[y] * place
    a, b, place = (a - x) / 256, (b - y) / 256, place * 256
  end
  return result
end

local function left(a, by) return a * 2 ^ by % ALL end

local function right(a, by) return floor(a / 2 ^ by) end

local function turned(a, by) return left(a, by) + right(a, 32 - by) end

local of_one = {
  tobit = function(a) return a end,
  bnot = function(a) return ALL - 1 - a end,
  bswap = function(a)
    return a % 256 * 2 ^ 24 + right(a, 8) % 256 * 2 ^ 16 + right(a, 16) % 256 * 2 ^ 8 + right(a, 24)
  end,
}

local of_many = {
  band = both,
  bor = function(a, b) return a + b - both(a, b) end,
  bxor = function(a, b) return a + b - 2 * both(a, b) end,
}

local of_places = {
  lshift = left,
  rshift = right,
  arshift = function(a, by) return right(signed(a), by) % ALL end,
  rol = turned,
  ror = function(a, by) return turned(a, (32 - by) % 32) end,
}

local bit = {}

for name, operation in pairs(of_one) do
  bit[name] = function(...) return signed(operation(bits(number(1, name, select('#', ...), ...)))) end
end

for name, operation in pairs(of_many) do
  bit[name] = function(...)
    local n, a, b = select('#', ...), ...
    if n == 2 and type(a) == 'number' and type(b) == 'number' then return signed(operation(bits(a), bits(b))) end
    local result = bits(number(1, name, n, ...))
    for place = 2, n do result = operation(result, bits(number(place, name, n, ...))) end
    return signed(result)
  end
end

for name, operation in pairs(of_places) do
  bit[name] = function(...)
    local n = select('#', ...)
    return signed(operation(bits(number(1, name, n, ...)), bits(number(2, name, n, ...)) % 32))
  end
end

function bit.tohex(...)
  local n = select('#', ...)
  local value = number(1, 'tohex', n, ...)
  local digits = n > 1 and signed(bits(number(2, 'tohex', n, ...))) or 8
  local text = format('%08x', bits(value))
  if digits < 0 then
    digits, text = -digits, upper(text)
  end
  return digits > 8 and text or sub(text, 9 - digits)
end

sandbox.behind.bit = sandbox.front(bit)
