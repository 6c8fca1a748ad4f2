-- The table `struct`: values to bytes and back, by formats as those of the library of that name in Redis.

local sandbox, float_bytes, read_float = ...

local type, select, tonumber, tostring, floor, unpack = type, select, tonumber, tostring, math.floor, unpack
local char, byte, sub, rep, reverse, find, match = string.char, string.byte, string.sub, string.rep, string.reverse,
  string.find, string.match
local concat, log = table.concat, math.log
local fail, bad = sandbox.fail, sandbox.bad

local INTEGER_BYTES_MAX, ALIGNMENT = 32, 8
local SIZES = { b = 1, B = 1, h = 2, H = 2, l = 8, L = 8, T = 8, f = 4, d = 8, x = 1 }

-- Read a format item by item; next() returns the option, its size and what to skip before it.
local function reader(form, name)
  local p, little, align = 1, true, 1
  local function digits(default)
    local text, behind = match(form, '^(%d+)()', p)
    if not text then return default end
    p = behind
    local number = tonumber(text)
    if number > 2147483647 then fail('integral size overflow') end
    return number
  end
  return function(at)
    local option = sub(form, p, p)
    p = p + 1
    if option == '' then return nil end
    if option == ' ' then return option, 0, 0, little end
    if option == '<' then
      little = true
    elseif option == '>' then
      little = false
    elseif option == '!' then
      local wanted = digits(ALIGNMENT)
      if wanted < 1 or wanted > 2147483647 or match(tostring(log(wanted) / log(2)), '%.') then
        fail('alignment ' .. wanted .. ' is not a power of 2')
      end
      align = wanted
    elseif option == 'i' or option == 'I' then
      local size = digits(4)
      if size > INTEGER_BYTES_MAX then
        fail('integral size ' .. size .. ' is larger than limit of ' .. INTEGER_BYTES_MAX)
      end
      local step = size > align and align or size
      return option, size, step > 1 and (step - at % step) % step or 0, little
    elseif option == 'c' then
      return option, digits(1), 0, little
    elseif option == 's' then
      return option, 0, 0, little
    else
      local size = SIZES[option]
      if not size then bad(1, name, "invalid format option '" .. option .. "'") end
      local step = size > align and align or size
      return option, size, option ~= 'x' and step > 1 and (step - at % step) % step or 0, little
    end
    return ' ', 0, 0, little
  end
end

local function integer_bytes(number, size, little)
  number = number < 0 and -floor(-number) or floor(number)
  local bytes = {}
  for i = 1, size do
    bytes[i] = char(number % 256)
    number = floor(number / 256)
  end
  local text = concat(bytes)
  return little and text or reverse(text)
end

-- As in C: of more than 8 bytes the lowest 8 count, of which the place of the sign is then a remainder. Two parts are
-- added, so that the number is rounded once.
local function read_integer(text, p, size, little, signed)
  local from, step = little and p + size - 1 or p, little and -1 or 1
  local sign = (size * 8 - 1) % 64
  if size > 8 then from, size = from + step * (size - 8), 8 end
  local high, low = 0, 0
  for i = 0, size - 5 do high = high * 256 + byte(text, from + step * i) end
  for i = size > 4 and size - 4 or 0, size - 1 do low = low * 256 + byte(text, from + step * i) end
  if not signed then return high * 2 ^ 32 + low end
  if sign < 32 then return (high > 0 or low >= 2 ^ sign) and low % 2 ^ sign - 2 ^ sign or low end
  if high >= 2 ^ (sign - 32) then high = high % 2 ^ (sign - 32) - 2 ^ (sign - 32) end
  return high * 2 ^ 32 + low
end

local function argument(place, name, wanted, ...)
  local value = (select(place, ...))
  local n = select('#', ...)
  local found = value
  if wanted == 'number' and type(value) == 'string' then found = tonumber(value) end
  if wanted == 'string' and type(value) == 'number' then found = tostring(value) end
  if type(found) ~= wanted then
    bad(place, name, wanted .. ' expected, got ' .. (place <= n and type(value) or place > 2 - n and name == 'pack' and 'nil' or 'no value'))
  end
  return found
end

local function pack(...)
  local form = argument(1, 'pack', 'string', ...)
  local item, out, at, place = reader(form, 'pack'), {}, 0, 1
  while true do
    local option, size, skip, little = item(at)
    if not option then break end
    local text
    if option == ' ' then
      text = ''
    elseif option == 'x' then
      text = '\0'
    elseif option == 'c' or option == 's' then
      place = place + 1
      text = argument(place, 'pack', 'string', ...)
      if option == 's' then
        text = text .. '\0'
      else
        if size == 0 then size = #text end
        if #text < size then bad(place + 1, 'pack', 'string too short') end
        text = sub(text, 1, size)
      end
    elseif option == 'f' or option == 'd' then
      place = place + 1
      text = float_bytes(argument(place, 'pack', 'number', ...), option == 'd' and 52 or 23)
      if little then text = reverse(text) end
    else
      place = place + 1
      text = integer_bytes(argument(place, 'pack', 'number', ...), size, little)
    end
    text = rep('\0', skip) .. text
    out[#out + 1] = text
    at = at + #text
  end
  return concat(out)
end

local function unpack_(...)
  local form, text = argument(1, 'unpack', 'string', ...), argument(2, 'unpack', 'string', ...)
  local from = 1
  if select('#', ...) > 2 then from = argument(3, 'unpack', 'number', ...) end
  if from < 1 then bad(3, 'unpack', 'offset must be 1 or greater') end
  local item, at, values, n = reader(form, 'unpack'), from - 1, {}, 0
  while true do
    local option, size, skip, little = item(at)
    if not option then break end
    at = at + skip
    if at + size > #text then bad(2, 'unpack', 'data string too short') end
    local value
    if option == 'c' then
      if size == 0 then
        if n == 0 or type(values[n]) ~= 'number' then fail("format 'c0' needs a previous size") end
        size = values[n]
        values[n], n = nil, n - 1
        if size < 0 or at + size > #text then bad(2, 'unpack', 'data string too short') end
      end
      value = sub(text, at + 1, at + size)
    elseif option == 's' then
      local stop = find(text, '\0', at + 1, true)
      if not stop then fail('unfinished string in data') end
      value, size = sub(text, at + 1, stop - 1), stop - at
    elseif option == 'f' or option == 'd' then
      local bytes = sub(text, at + 1, at + size)
      value = read_float(little and reverse(bytes) or bytes, 1, option == 'd' and 52 or 23)
    elseif option ~= ' ' and option ~= 'x' then
      value = read_integer(text, at + 1, size, little, option == 'b' or option == 'h' or option == 'l' or option == 'i')
    end
    if value ~= nil then
      n = n + 1
      values[n] = value
    end
    at = at + size
  end
  values[n + 1] = at + 1
  return unpack(values, 1, n + 1)
end

local function size_of(...)
  local item, at = reader(argument(1, 'size', 'string', ...), 'size'), 0
  while true do
    local option, size, skip = item(at)
    if not option then return at end
    if option == 's' then
      bad(1, 'size', "option 's' has no fixed size")
    elseif option == 'c' and size == 0 then
      bad(1, 'size', "option 'c0' has no fixed size")
    end
    at = at + skip + size
  end
end

sandbox.behind.struct = sandbox.front({ pack = pack, unpack = unpack_, size = size_of })
