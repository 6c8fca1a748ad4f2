-- The table `bit`: operations on the lowest 32 bits of numbers, of which Lua 5.1 has none; results are signed.
--
-- operate(name, a, b): what the operation makes of two numbers; b is 0 where there is no second one.

local sandbox, operate = ...

local select, tonumber, type, format, sub, upper = select, tonumber, type, string.format, string.sub, string.upper
local bad = sandbox.bad

local function number(place, name, n, ...)
  local value = (select(place, ...))
  local found = type(value) == 'string' and tonumber(value) or value
  if type(found) ~= 'number' then
    bad(place, name, 'number expected, got ' .. (place <= n and type(value) or 'no value'))
  end
  return found
end

local bit = {}

for _, name in ipairs { 'tobit', 'bnot', 'bswap' } do
  bit[name] = function(...) return operate(name, number(1, name, select('#', ...), ...), 0) end
end

for _, name in ipairs { 'band', 'bor', 'bxor' } do
  bit[name] = function(...)
    local n = select('#', ...)
    local result = operate('tobit', number(1, name, n, ...), 0)
    for place = 2, n do result = operate(name, result, number(place, name, n, ...)) end
    return result
  end
end

for _, name in ipairs { 'lshift', 'rshift', 'arshift', 'rol', 'ror' } do
  bit[name] = function(...)
    local n = select('#', ...)
    return operate(name, number(1, name, n, ...), number(2, name, n, ...))
  end
end

function bit.tohex(...)
  local n = select('#', ...)
  local value = number(1, 'tohex', n, ...)
  local digits = n > 1 and operate('tobit', number(2, 'tohex', n, ...), 0) or 8
  local text = format('%08x', operate('tobit', value, 0) % 4294967296)
  if digits < 0 then
    digits, text = -digits, upper(text)
  end
  return digits > 8 and text or sub(text, 9 - digits)
end

sandbox.behind.bit = sandbox.front(bit)
